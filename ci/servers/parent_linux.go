package servers

import "syscall"

// EndWithParent makes the kernel kill a server when the test process dies, so that a test
// that crashes or times out leaves none behind.
func EndWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
