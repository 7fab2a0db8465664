package testkit

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// BubbleAddr is what a client in a bubble dials. It is an IP address, since the
// resolver does not work in a bubble.
const BubbleAddr = "127.0.0.1:6379"

// BubbleRedis is a Redis double for the inside of a synctest bubble: it knows
// the bubble's clock and no sockets.
type BubbleRedis struct {
	*miniredis.Miniredis
	working sync.WaitGroup
}

// StartBubbleRedis must be called inside the bubble. Clients must have been
// closed when the test ends.
func StartBubbleRedis(t testing.TB) *BubbleRedis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	r := &BubbleRedis{Miniredis: m}
	t.Cleanup(func() {
		m.Close()
		r.working.Wait()
	})
	return r
}

// Dial is the dialer for clients.
func (r *BubbleRedis) Dial(context.Context, string, string) (net.Conn, error) {
	inner, err := r.Miniredis.Dial()
	if err != nil {
		return nil, err
	}
	c := &roomyConn{Conn: inner}
	c.more.L = &c.mu
	r.working.Go(c.pump)
	return c, nil
}

// roomyConn takes whatever is written at once. On a plain pipe a long pipeline
// of commands would wait for its server, which waits for somebody to read the
// first replies.
type roomyConn struct {
	net.Conn

	mu      sync.Mutex // guards everything below
	more    sync.Cond
	waiting bytes.Buffer
	closed  bool
}

// Write implements [net.Conn].
func (c *roomyConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.waiting.Write(p)
	c.more.Signal()
	return len(p), nil
}

// Close implements [net.Conn].
func (c *roomyConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.more.Signal()
	c.mu.Unlock()
	return c.Conn.Close()
}

// pump hands on what was written.
func (c *roomyConn) pump() {
	for {
		c.mu.Lock()
		for c.waiting.Len() == 0 && !c.closed {
			c.more.Wait()
		}
		data := bytes.Clone(c.waiting.Bytes())
		c.waiting.Reset()
		closed := c.closed
		c.mu.Unlock()
		if closed {
			return
		}
		if _, err := c.Conn.Write(data); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				_ = c.Conn.Close()
			}
			return
		}
	}
}
