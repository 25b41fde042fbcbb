//go:build !linux

package servers

import "syscall"

// endWithParent asks for nothing: only Linux ends a child with its parent.
func endWithParent() *syscall.SysProcAttr { return nil }
