package testkit

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Link is a TCP connection to a server that can be cut.
type Link struct {
	target   string
	listener net.Listener
	working  sync.WaitGroup

	mu     sync.Mutex // guards everything below
	cut    bool
	deaf   bool // a reply is to be lost, and its connection with it
	skip   int  // replies before that one
	lost   int
	conns  map[net.Conn]bool
	closed bool
}

// NewLink returns a link to a server. It ends with the test.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{target: target, listener: listener, conns: make(map[net.Conn]bool)}
	l.working.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

// Addr is what to connect to instead of the server.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Cut ends all connections and refuses new ones until the link is mended.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.closeAllLocked()
}

// Mend undoes a cut.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.deaf = false, false
}

// LoseReply cuts a connection instead of delivering an answer: the one after
// skip others. What was asked is carried out.
func (l *Link) LoseReply(skip int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf, l.skip = true, skip
}

// Lost is how many replies were lost.
func (l *Link) Lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *Link) close() {
	l.mu.Lock()
	l.closed = true
	l.closeAllLocked()
	l.mu.Unlock()
	_ = l.listener.Close()
	l.working.Wait()
}

func (l *Link) closeAllLocked() {
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			l.working.Go(func() { l.serve(c) })
		}
	}
}

func (l *Link) serve(client net.Conn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil || !l.add(client, server) {
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	var up sync.WaitGroup
	up.Go(func() { l.pipe(server, client, func() bool { return false }) })
	l.pipe(client, server, l.loses)
	up.Wait()
}

func (l *Link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
	}
	if l.cut || l.closed {
		l.closeAllLocked()
		return false
	}
	return true
}

// loses reports whether the reply at hand is to be lost.
func (l *Link) loses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.deaf {
		return false
	}
	if l.skip > 0 {
		l.skip--
		return false
	}
	l.deaf = false
	l.lost++
	return true
}

// pipe copies until either side ends or what came is to be lost.
func (l *Link) pipe(to io.WriteCloser, from io.ReadCloser, lose func() bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || lose() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
