package testkit

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Call is one request that reached a scripted upstream.
type Call struct {
	Method, URI, Host string
	Header            http.Header
	Body              []byte

	stop   context.CancelCauseFunc
	closed chan struct{} // the peer closed before the script ended
	done   chan struct{} // the script ended, one way or the other

	mu       sync.Mutex // guards everything below
	bytes    int64
	complete bool
	closedAt time.Time
}

// run plays a script and records how it ended.
func (c *Call) run(ctx context.Context, play func() bool) {
	watch := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), errStopped) {
			c.markClosed()
		}
	})
	complete := false
	defer func() {
		if !watch() && !complete {
			<-c.closed
		}
		c.mu.Lock()
		c.complete = complete
		c.mu.Unlock()
		close(c.done)
	}()
	complete = play()
}

func (c *Call) markClosed() {
	c.mu.Lock()
	c.closedAt = time.Now()
	c.mu.Unlock()
	close(c.closed)
}

func (c *Call) wrote(n int) {
	c.mu.Lock()
	c.bytes += int64(n)
	c.mu.Unlock()
}

// Wrote is the number of body bytes handed to the connection.
func (c *Call) Wrote() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// PeerClosed is closed when the peer hangs up before the script has ended.
func (c *Call) PeerClosed() <-chan struct{} { return c.closed }

// IsOpen reports whether the script still runs and its peer is still there.
func (c *Call) IsOpen() bool {
	select {
	case <-c.done:
		return false
	case <-c.closed:
		return false
	default:
		return true
	}
}

// AwaitClose waits until the peer hangs up and returns when it did.
func (c *Call) AwaitClose(t testing.TB) time.Time {
	t.Helper()
	select {
	case <-c.closed:
	case <-time.After(Patience):
		t.Fatal("the gateway did not close its upstream")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closedAt
}

// AwaitEnd waits until the script has ended and reports whether it ran to its
// last step with its peer listening.
func (c *Call) AwaitEnd(t testing.TB) bool {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(Patience):
		t.Fatal("the upstream's script did not end")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.complete
}
