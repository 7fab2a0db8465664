package modeltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// link is what lies between one instance and the store. No call through it
// waits: a bubble's time stands still while somebody waits for a mutex, and an
// owner holds one while it asks its store.
type link struct {
	redis   *testkit.BubbleRedis
	working sync.WaitGroup

	mu    sync.Mutex // guards everything below
	state linkState
	lose  int // replies to scripts that get lost from now on
	conns map[*linkConn]bool
}

type linkState uint8

// A link is up; or refuses everything; or hangs up on the client and delivers
// what it said when the link is mended, as a network does with packets that are
// under way while their sender is frozen.
const (
	linkUp linkState = iota
	linkCut
	linkLate
)

var errCut = errors.New("link is cut")

func newLink(r *testkit.BubbleRedis) *link {
	return &link{redis: r, conns: make(map[*linkConn]bool)}
}

// dial is the dialer of the instance's store.
func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != linkUp {
		return nil, errCut
	}
	inner, err := l.redis.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &linkConn{Conn: inner, link: l}
	l.conns[c] = true
	return c, nil
}

// set changes the state of the link and of everything on it.
func (l *link) set(s linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	for c := range l.conns {
		switch {
		case s == linkCut:
			c.hangUp()
		case s == linkUp && len(c.late) > 0:
			l.deliver(c)
		}
	}
}

// deliver hands over what came late. Nobody hears the replies.
func (l *link) deliver(c *linkConn) {
	delete(l.conns, c)
	inner, said := c.Conn, c.late
	l.working.Go(func() {
		defer inner.Close()
		if _, err := inner.Write(said); err != nil {
			return
		}
		_ = inner.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, inner) // until the deadline
	})
}

// loseReplies makes the next n replies to scripts get lost.
func (l *link) loseReplies(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = n
}

// linkConn is one connection. The link's mutex guards its fields.
type linkConn struct {
	net.Conn

	link  *link
	dead  bool
	asked bool // a script is under way
	late  []byte
}

// hangUp ends the connection for both sides.
func (c *linkConn) hangUp() {
	c.dead, c.late = true, nil
	delete(c.link.conns, c)
	_ = c.Conn.Close()
}

// Write implements [net.Conn].
func (c *linkConn) Write(p []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	switch {
	case c.dead:
		return 0, errCut
	case c.link.state == linkLate:
		c.dead, c.late = true, bytes.Clone(p)
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // whoever waits for an answer hears that there is none
		return len(p), nil
	}
	c.asked = c.asked || bytes.Contains(bytes.ToLower(p), []byte("eval"))
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *linkConn) Read(p []byte) (int, error) {
	c.link.mu.Lock()
	dead := c.dead
	c.link.mu.Unlock()
	if dead {
		return 0, errCut
	}
	n, err := c.Conn.Read(p)
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if err == nil && c.asked && c.link.lose > 0 {
		c.link.lose--
		c.hangUp()
	}
	if c.dead {
		return 0, errCut
	}
	return n, err
}

// SetReadDeadline implements [net.Conn].
func (c *linkConn) SetReadDeadline(t time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.dead {
		return errCut
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *linkConn) SetDeadline(t time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.dead {
		return errCut
	}
	return c.Conn.SetDeadline(t)
}

// Close implements [net.Conn]. What is on its way stays there.
func (c *linkConn) Close() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if len(c.late) == 0 {
		c.hangUp()
	}
	return nil
}
