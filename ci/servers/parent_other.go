//go:build !linux

package servers

import "syscall"

// EndWithParent asks for nothing: only Linux ends a child with its parent.
func EndWithParent() *syscall.SysProcAttr { return nil }
