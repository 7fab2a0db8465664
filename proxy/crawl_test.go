package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// crawler reads a stream a few bytes a second, to its end, and returns what it
// got.
func crawler(t *testing.T, s *site, path string, bytesPerSecond int) <-chan string {
	t.Helper()
	client, server := net.Pipe()
	h := &http.Server{Handler: s.handler}
	l := &oneConn{conn: server, done: make(chan struct{})}
	go h.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { h.Close(); client.Close() })
	got := make(chan string, 1)
	go func() {
		ask := "GET " + path + " HTTP/1.1\r\nHost: pipe.test\r\n" + testkit.SubjectHeader + ": user-a\r\nConnection: close\r\n\r\n"
		_, _ = client.Write([]byte(ask)) // the answer tells
		var all strings.Builder
		buf := make([]byte, bytesPerSecond)
		for {
			n, err := client.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				got <- all.String()
				return
			}
			time.Sleep(time.Second)
		}
	}()
	return got
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

// Accept implements [net.Listener].
func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (l *oneConn) Close() error { close(l.done); return nil }

// Addr implements [net.Listener].
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestALargeFrameOverASlowLineArrives: a reader that takes something all the
// time does not stall, however long one frame takes.
func TestALargeFrameOverASlowLineArrives(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		frame := strings.Repeat("x", 1<<20)
		s := newSite(t, streams(datum(frame)), generic)
		run := s.ran(t, startChat())
		began := time.Now()
		got := <-crawler(t, s, "/_runs/"+run+"/events", 8<<10)
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(resp.Body); err != nil || !strings.Contains(body.String(), frame) || !strings.Contains(body.String(), "run.end") {
			t.Errorf("after %v got %d bytes, %v, want the frame and the end", time.Since(began), body.Len(), err)
		}
	})
}

// TestAReaderOfOneByteASecondHurtsOnlyItself: what it got is right, and the run
// and the other readers are as fast as without it.
func TestAReaderOfOneByteASecondHurtsOnlyItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for i := range 60 {
				if say(w, datum(itoa(i))) != nil || pause(r, time.Second) != nil {
					hangUp()
				}
			}
			return nil
		}, generic)
		first := s.Do(t, startChat())
		first.Take(1)
		began := time.Now()
		got := crawler(t, s, "/_runs/"+first.Run()+"/events", 1)
		first.Rest()
		if took := time.Since(began); took > 62*time.Second {
			t.Errorf("the run took %v beside a slow reader, want a minute", took)
		}
		if text := <-got; !strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") || strings.Contains(text, "run.end") {
			t.Errorf("got %q, want the beginning and no end", text)
		}
		if n, err := s.store.Readers(context.WithoutCancel(t.Context()), runID(first.Run())); err != nil || n != 0 {
			t.Errorf("got %d readers (%v), want it closed", n, err)
		}
	})
}

// tally is a client that checks the numbers of frames as they come and keeps
// none of them.
type tally struct {
	head http.Header
	next int
	took chan int // after each frame, its number
	bad  string
}

// Header implements [http.ResponseWriter].
func (c *tally) Header() http.Header { return c.head }

// WriteHeader implements [http.ResponseWriter].
func (c *tally) WriteHeader(int) {}

// Flush implements [http.Flusher].
func (c *tally) Flush() {}

// Write implements [http.ResponseWriter].
func (c *tally) Write(b []byte) (int, error) {
	for frame := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte("\n\n")), []byte("\n\n")) {
		c.next++
		_, rest, _ := bytes.Cut(frame, []byte("."))
		number, data, _ := strings.Cut(string(rest), "\n")
		if (number != strconv.Itoa(c.next) || data != "data: 1") && c.bad == "" {
			c.bad = string(frame)
		}
	}
	c.took <- c.next
	return len(b), nil
}

// TestAMillionTinyFramesArrive, each once and in order, and cost what is kept
// of them.
func TestAMillionTinyFramesArrive(t *testing.T) {
	const frames, kept, burst = 1_000_000, 10_000, 1000
	tiny := strings.Repeat("data: 1\n\n", burst)
	client := &tally{head: make(http.Header), took: make(chan int, frames)}
	var peak uint64
	s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
		sse(w)
		for sent := burst; sent <= frames; sent += burst {
			if err := say(w, tiny); err != nil {
				return err
			}
			for n := 0; n < sent; { // the reader keeps up
				n = <-client.took
			}
			if sent%(frames/10) == 0 {
				peak = max(peak, inUse())
			}
		}
		return nil
	}, generic, func(c *proxy.Config) { c.Limits.RunFrames = kept })
	before := inUse()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream":true,"messages":[]}`))
	r.Header.Set("Content-Type", jsonType)
	r.Header.Set(testkit.SubjectHeader, "user-a")
	s.handler.ServeHTTP(client, r)
	if client.next != frames || client.bad != "" {
		t.Errorf("got %d frames, a wrong one: %q, want %d", client.next, client.bad, frames)
	}
	if peak > before+4<<20 {
		t.Errorf("%d MiB were in use, want what %d tiny frames need", (peak-before)>>20, kept)
	}
}

// inUse is what is allocated and not freed.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
