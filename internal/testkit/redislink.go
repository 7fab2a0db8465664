package testkit

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Link is a TCP connection to a server that can be cut.
type Link struct {
	listener net.Listener
	working  sync.WaitGroup

	mu     sync.Mutex // guards everything below
	target string
	cut    bool
	deaf   bool // a reply is to be lost, and its connection with it
	skip   int  // replies before that one
	lost   int
	hold   *held // a request is to be held back
	conns  map[net.Conn]bool
	closed bool
	mute   bool // nothing that is published arrives
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

// Redirect ends all connections; new ones lead to another server.
func (l *Link) Redirect(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
	l.closeAllLocked()
}

func (l *Link) leadsTo() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

// LoseReply cuts a connection instead of delivering an answer: the one after
// skip others. What was asked is carried out.
func (l *Link) LoseReply(skip int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf, l.skip = true, skip
}

// Mute keeps what is published from arriving, and what else is said on the
// connections of subscribers. It lasts as long as the link.
func (l *Link) Mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = true
}

func (l *Link) muted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mute
}

// Lost is how many replies were lost.
func (l *Link) Lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// held is a request that does not arrive before it is released.
type held struct {
	taken, release, answered chan struct{}
	releasing                sync.Once
}

// HoldRequest keeps what a client sends next on its way. It arrives when the
// function that is returned is called, even if the client gave up meanwhile;
// that function waits for the answer, which nobody may hear.
func (l *Link) HoldRequest(t testing.TB) (deliver func()) {
	t.Helper()
	h := &held{taken: make(chan struct{}), release: make(chan struct{}), answered: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = h
	letGo := func() { h.releasing.Do(func() { close(h.release) }) }
	t.Cleanup(letGo)
	return func() {
		<-h.taken
		letGo()
		<-h.answered
	}
}

// takes returns the hold for the request at hand, if there is one.
func (l *Link) takes() *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hold
	l.hold = nil
	return h
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
	target := l.leadsTo()
	server, err := net.Dial("tcp", target)
	if err != nil || !l.add(target, client, server) {
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	var up sync.WaitGroup
	waiting := make(chan *held, 1) // for an answer
	var subscribed atomic.Bool
	up.Go(func() {
		l.pipe(server, client, func(b []byte) fate {
			if bytes.Contains(bytes.ToLower(b), []byte("subscribe")) {
				subscribed.Store(true)
			}
			if h := l.takes(); h != nil {
				close(h.taken)
				<-h.release
				waiting <- h
			}
			return arrives
		})
		// Only so far: the server may still have something to say.
		if tcp, ok := server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	})
	l.pipe(client, server, func([]byte) fate {
		select {
		case h := <-waiting:
			close(h.answered)
		default:
		}
		switch {
		case l.loses():
			return cuts
		case subscribed.Load() && l.muted():
			return vanishes
		default:
			return arrives
		}
	})
	_, _ = client.Close(), server.Close()
	up.Wait()
}

// add reports whether a new connection may stay.
func (l *Link) add(target string, conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.closed || target != l.target {
		return false
	}
	for _, c := range conns {
		l.conns[c] = true
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

// fate is what becomes of bytes on their way.
type fate int

const (
	arrives  fate = iota
	vanishes      // and the connection goes on
	cuts          // and the connection ends
)

// pipe copies until either side ends or what came is to be lost. A reply that
// nobody hears is still waited for.
func (l *Link) pipe(to io.Writer, from io.Reader, decide func([]byte) fate) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		switch decide(buf[:n]) {
		case arrives:
			_, _ = to.Write(buf[:n]) // who is gone is found out by reading
		case cuts:
			return
		case vanishes:
		}
	}
}
