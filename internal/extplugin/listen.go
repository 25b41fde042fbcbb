package extplugin

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketPath is the longest path that a unix socket's address holds, its end
	// mark excluded (108 bytes in all on Linux).
	maxSocketPath = 107

	// temporaryName is how many random characters the name has under which a
	// socket is made; where the path is nearly as long as can be, fewer.
	temporaryName    = 16
	minTemporaryName = 2

	// bindTries is how many random names are tried.
	bindTries = 8

	// lockWait bounds the wait for another runner that takes a path over or gives
	// it up: either takes microseconds.
	lockWait = 100 * time.Millisecond
	lockStep = time.Millisecond
)

// socketListener is a unix socket that another runner may take over: closing it removes
// the path only if it still leads to this socket.
type socketListener struct {
	*net.UnixListener
	path string
	own  fs.FileInfo
	gone sync.Once
}

// Listen makes a unix socket at path and returns its listener. The socket gets
// Config.SocketMode and is only then put in the place of a socket that is there,
// whether or not a runner still listens on that: APISIX finds one of them at every
// moment. Whatever else is at path is left alone and an error, as are a missing
// directory and a path longer than 107 bytes.
func (s *Server) Listen(path string) (net.Listener, error) {
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	listener, temporary, err := bindBeside(path)
	if err != nil {
		return nil, fmt.Errorf("making the socket %s: %w", path, err)
	}
	listener.SetUnlinkOnClose(false)
	l := &socketListener{UnixListener: listener, path: path}
	if err := l.publish(temporary, s.cfg.SocketMode); err != nil {
		return nil, errors.Join(
			fmt.Errorf("making the socket %s: %w", path, err),
			listener.Close(), removeIfThere(temporary))
	}
	return l, nil
}

func checkSocketPath(path string) error {
	if path == "" {
		return errors.New("the path of the socket is empty")
	}
	if len(path) > maxSocketPath {
		return fmt.Errorf("the path of the socket is %d bytes long, more than the %d that the system allows: %s",
			len(path), maxSocketPath, path)
	}
	dir, err := os.Stat(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory of the socket %s does not exist: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("looking at the directory of the socket %s: %w", path, err)
	}
	if !dir.IsDir() {
		return fmt.Errorf("%s, the parent of the socket %s, is not a directory", filepath.Dir(path), path)
	}
	return checkReplaceable(path)
}

// checkReplaceable is nil when nothing is at path, or a socket.
func checkReplaceable(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket (%s)", path, info.Mode())
	}
	return nil
}

// bindBeside makes a socket of a random name in path's directory.
func bindBeside(path string) (*net.UnixListener, string, error) {
	dir := filepath.Dir(path)
	room := min(temporaryName, maxSocketPath-len(dir)-len("/."))
	if room < minTemporaryName {
		return nil, "", errors.New("the directory's path leaves no room for a temporary name")
	}
	var err error
	for range bindTries {
		var random [temporaryName / 2]byte
		if _, err := rand.Read(random[:]); err != nil {
			return nil, "", fmt.Errorf("choosing a temporary name: %w", err)
		}
		temporary := dir + "/." + hex.EncodeToString(random[:])[:room]
		var l *net.UnixListener
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, temporary, err
		}
	}
	return nil, "", err
}

// publish gives the socket at temporary its mode and moves it to the listener's
// path.
func (l *socketListener) publish(temporary string, mode fs.FileMode) error {
	if err := os.Chmod(temporary, mode); err != nil {
		return err
	}
	own, err := os.Lstat(temporary)
	if err != nil {
		return err
	}
	unlock := lockDir(filepath.Dir(l.path))
	defer unlock()
	if err := checkReplaceable(l.path); err != nil {
		return err
	}
	l.own = own
	return os.Rename(temporary, l.path)
}

// Close stops listening and removes the socket, if the path still leads to it.
func (l *socketListener) Close() error {
	l.retire()
	return l.UnixListener.Close()
}

// retire removes the path, if it still leads to this socket: no new connection can
// be made, those in the backlog can still be accepted.
func (l *socketListener) retire() {
	l.gone.Do(func() {
		unlock := lockDir(filepath.Dir(l.path))
		defer unlock()
		now, err := os.Lstat(l.path)
		if err != nil || !os.SameFile(l.own, now) {
			return // another runner's
		}
		_ = os.Remove(l.path) // a socket that nobody listens on is replaced by the next
	})
}

// waiting reports whether a connection waits to be accepted.
func (l *socketListener) waiting() bool {
	raw, err := l.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // n is 0 or less on error
	})
	return err == nil && n > 0
}

// lockDir keeps other runners from moving or removing sockets in dir until unlock
// is called. Without it one might remove a socket that has just taken its own's
// place. When the lock is not to be had, that small risk is taken.
func lockDir(dir string) (unlock func()) {
	d, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	for until := time.Now().Add(lockWait); time.Now().Before(until); time.Sleep(lockStep) {
		if syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			break
		}
	}
	return func() { _ = d.Close() } // which unlocks
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
