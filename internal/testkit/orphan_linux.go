package testkit

import "syscall"

// notOrphaned makes a process end with the test process that started it, even
// when that one is killed or panics and cleans nothing up.
func notOrphaned() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
