//go:build !linux

package subprocess

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
