package testkit

import (
	"syscall"
	"testing"
)

// Crash ends the process at once, as kill -9 does, and waits for that. Its end
// is then no fault.
func (g *Gateway) Crash() {
	g.crashed.Store(true)
	g.Kill()
}

// Freeze stops the process in its tracks until it is thawed, which happens at
// the latest when the test ends.
func (g *Gateway) Freeze(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { _ = g.Signal(syscall.SIGCONT) }) // it may be gone by then
	if err := g.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("freezing the gateway: %v", err)
	}
}

// Thaw lets a frozen process go on.
func (g *Gateway) Thaw(t testing.TB) {
	t.Helper()
	if err := g.Signal(syscall.SIGCONT); err != nil {
		t.Fatalf("thawing the gateway: %v", err)
	}
}

// Terminate asks the process to end and does not wait.
func (g *Gateway) Terminate(t testing.TB) {
	t.Helper()
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("stopping the gateway: %v", err)
	}
}
