package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// lockFile is locked by the runner that has the counters, and holds its process id.
	lockFile = "counters.lock"
	// handoverTimeout bounds how long a start waits for the runner before it.
	handoverTimeout = 500 * time.Millisecond
	// handoverPoll is how often it looks.
	handoverPoll = 5 * time.Millisecond
)

// handover decides which of the runners that share a data folder has the counters.
// The kernel drops the lock of a process that ends, however it ends.
type handover struct {
	mu   sync.Mutex
	file *os.File
	mine bool
}

func openHandover(dataDir string) (*handover, error) {
	file, err := os.OpenFile(filepath.Join(dataDir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the counters: %w", err)
	}
	return &handover{file: file}, nil
}

// held reports whether this process has the counters.
func (h *handover) held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mine
}

// tryClaim takes the counters if nobody has them.
func (h *handover) tryClaim() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mine {
		return true
	}
	if err := syscall.Flock(int(h.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return false
	}
	h.mine = true
	// Without an id others wait in vain, for half a second.
	if err := h.file.Truncate(0); err == nil {
		_, _ = h.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return true
}

// claim takes the counters, asking the process that has them first. It reports
// whether it got them in time.
func (h *handover) claim(ctx context.Context) bool {
	if h.tryClaim() {
		return true
	}
	h.ask()
	deadline := time.NewTimer(handoverTimeout)
	defer deadline.Stop()
	poll := time.NewTicker(handoverPoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-deadline.C:
			return h.tryClaim()
		case <-poll.C:
			if h.tryClaim() {
				return true
			}
		}
	}
}

// ask sends the signal to the process that has the counters. Its id cannot be that
// of another process: the lock is held, so the one that wrote it is alive.
func (h *handover) ask() {
	const longest = 32 // digits of a process id, and more
	text := make([]byte, longest)
	n, _ := h.file.ReadAt(text, 0) // a short file ends with an error
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || pid <= 1 || pid == os.Getpid() {
		return
	}
	_ = syscall.Kill(pid, handoverSignal) // one that is gone has dropped its lock
}

// release lets another process have the counters.
func (h *handover) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mine {
		h.mine = false
		_ = syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN) // closing drops it in any case
	}
}

func (h *handover) close() {
	h.release()
	_ = h.file.Close() // nothing of worth was written
}
