//go:build !linux

package testkit

import "syscall"

// notOrphaned has no means here: a test process that is killed leaves its
// gateways behind.
func notOrphaned() *syscall.SysProcAttr { return nil }
