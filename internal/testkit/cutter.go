package testkit

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Cutter is a network that fails: it stands between a client and the gateway
// and resets the client's connections on command.
type Cutter struct {
	listener net.Listener
	to       string
	all      sync.WaitGroup

	mu    sync.Mutex // guards everything below
	conns []net.Conn
	down  chan struct{} // closed when the network is back; nil while it is up
	tries int           // connections that were tried while it was down
}

// NewCutter stands in front of a server until the test ends.
func NewCutter(t *testing.T, url string) *Cutter {
	t.Helper()
	c := &Cutter{listener: Listen(t), to: strings.TrimPrefix(url, "http://")}
	c.all.Go(c.accept)
	t.Cleanup(func() {
		_ = c.listener.Close()
		c.Restore()
		c.Cut()
		c.Restore()
		c.all.Wait()
	})
	return c
}

// URL is what to call instead of the server.
func (c *Cutter) URL() string { return "http://" + c.listener.Addr().String() }

func (c *Cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.all.Go(func() { c.join(client) })
	}
}

// join connects a client once the network is up.
func (c *Cutter) join(client net.Conn) {
	c.mu.Lock()
	down := c.down
	if down != nil {
		c.tries++
	}
	c.mu.Unlock()
	if down != nil {
		<-down
	}
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		_ = client.Close()
		return
	}
	c.mu.Lock()
	c.conns = append(c.conns, client, server)
	c.mu.Unlock()
	c.all.Go(func() { copyAndClose(server, client) })
	copyAndClose(client, server)
}

func copyAndClose(to, from net.Conn) {
	_, _ = io.Copy(to, from) // how it ends is the test's own doing
	_ = to.Close()
}

// Cut resets all connections and lets none through until Restore.
func (c *Cutter) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		ResetConn(conn)
	}
	c.conns = nil
	if c.down == nil {
		c.down = make(chan struct{})
	}
}

// Restore lets connections through again.
func (c *Cutter) Restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		close(c.down)
		c.down = nil
	}
}

// Waiting is the number of connections that were tried while the network was
// down.
func (c *Cutter) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries
}
