package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// installTimeout bounds an installation, waiting for other installations included.
	installTimeout = 5 * time.Minute
	// installRetry is the time between two attempts while another process holds apt's lock.
	installRetry = 2 * time.Second
)

// Require makes sure that a program is there: found on PATH, or installed from the Debian
// package named when this process is root and apt-get exists.
func Require(ctx context.Context, program, debianPackage string) error {
	if _, err := exec.LookPath(program); err == nil {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%s is not installed: install the package %s", program, debianPackage)
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	unlock, err := lockInstallation()
	if err != nil {
		return err
	}
	defer unlock()
	for {
		// Another process may have installed it while this one waited.
		if _, err := exec.LookPath(program); err == nil {
			return nil
		}
		err := install(ctx, apt, debianPackage)
		if err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("installing %s: %w", debianPackage, err)
		case <-time.After(installRetry):
		}
	}
}

// lockInstallation lets one test process at a time run apt-get.
func lockInstallation() (unlock func(), err error) {
	path := filepath.Join(os.TempDir(), "graphql-limit-count-install.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the installation of packages: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the installation of packages: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// install runs apt-get once: the package lists are refreshed only when the package cannot
// be installed without.
func install(ctx context.Context, apt, debianPackage string) error {
	installation := []string{"install", "-y", "-q", "--no-install-recommends", debianPackage}
	if runApt(ctx, apt, installation) == nil {
		return nil
	}
	if err := runApt(ctx, apt, []string{"update", "-q"}); err != nil {
		return err
	}
	return runApt(ctx, apt, installation)
}

func runApt(ctx context.Context, apt string, args []string) error {
	args = append([]string{"-o", "DPkg::Lock::Timeout=60"}, args...)
	cmd := exec.CommandContext(ctx, apt, args...)
	// RUNLEVEL=1 keeps the package from starting its service: tests start their own.
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running apt-get: %w: %s", err, out[max(0, len(out)-logTail):])
	}
	return nil
}
