// Package subprocess sees to it that the processes which tests and development tools
// start do not outlive them. It is for tests and development tools, not for the
// product.
package subprocess

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes a command that is not started yet end with this process, so that
// one that crashes or times out leaves none behind. Only Linux does that; elsewhere
// nothing changes.
func EndWithParent(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(command.SysProcAttr)
}

// OwnGroup gives a command that is not started yet a process group of its own: Ctrl-C
// in a terminal goes to this process alone, which ends the command in its own time.
func OwnGroup(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
}
