package servers

import "syscall"

// endWithParent makes the kernel kill a server when the test process dies, so that a test
// that crashes or times out leaves none behind.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
