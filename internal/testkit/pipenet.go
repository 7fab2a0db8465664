package testkit

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// pipeNet is a network inside this process: a listener and the dialer that
// reaches it. It works inside a synctest bubble, where sockets do not.
type pipeNet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// ServePipe serves h on a network of its own until the test ends and returns a
// client of it. Inside a bubble, call it inside.
func ServePipe(t testing.TB, h http.Handler) Client {
	t.Helper()
	p := &pipeNet{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(p) }) // it ends with the listener
	t.Cleanup(func() {
		_ = server.Close()
		served.Wait()
	})
	c := NewClient("http://pipe.test")
	c.dial, c.Limit = p.dial, 1000*time.Hour // time costs nothing in a bubble
	return c
}

// Accept implements [net.Listener].
func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *pipeNet) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (p *pipeNet) Addr() net.Addr { return pipeAddr{} }

func (p *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- loopback{server}:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// loopback gives a pipe's end an address that parses as one.
type loopback struct{ net.Conn }

// RemoteAddr implements [net.Conn].
func (loopback) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

type pipeAddr struct{}

// Network implements [net.Addr].
func (pipeAddr) Network() string { return "pipe" }

// String implements [net.Addr].
func (pipeAddr) String() string { return "pipe" }
