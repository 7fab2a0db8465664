package caddymodule

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// stream is an answer that is read block by block.
type stream struct {
	t      *testing.T
	resp   *http.Response
	blocks chan string // closed at the end
	err    error       // set before blocks is closed
}

// stream sends a request and reads its answer in the background.
func (g *gateway) stream(r *http.Request) *stream {
	g.t.Helper()
	s := &stream{t: g.t, resp: g.do(r), blocks: make(chan string, 1000)}
	go func() {
		defer close(s.blocks)
		in := bufio.NewReader(s.resp.Body)
		block := ""
		for {
			line, err := in.ReadString('\n')
			block += line
			if err != nil {
				if !errors.Is(err, io.EOF) {
					s.err = err
				}
				return
			}
			if line == "\n" {
				s.blocks <- block
				block = ""
			}
		}
	}()
	return s
}

func (s *stream) run() string { return s.resp.Header.Get("X-Run-Id") }

// next returns the next block without our id line.
func (s *stream) next() string {
	s.t.Helper()
	select {
	case block, ok := <-s.blocks:
		if !ok {
			s.t.Fatalf("next block: got the end (%v), want one", s.err)
		}
		return withoutID(block)
	case <-time.After(patience):
		s.t.Fatalf("next block: got none within %v", patience)
		return ""
	}
}

// rest returns everything up to the end, which must be a clean one.
func (s *stream) rest() string {
	s.t.Helper()
	text := ""
	deadline := time.After(patience)
	for {
		select {
		case block, ok := <-s.blocks:
			if !ok {
				if s.err != nil {
					s.t.Errorf("end of stream: got %v, want a clean end", s.err)
				}
				return text
			}
			text += withoutID(block)
		case <-deadline:
			s.t.Fatalf("end of stream: not within %v", patience)
		}
	}
}

// drained waits for the end that a draining gateway makes of an answer.
func (s *stream) drained() {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case _, ok := <-s.blocks:
			if !ok {
				return
			}
		case <-deadline:
			s.t.Fatalf("end of a drained answer: not within %v", patience)
		}
	}
}

func withoutID(block string) string {
	var kept strings.Builder
	for line := range strings.Lines(block) {
		if !strings.HasPrefix(line, "id:") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// upstream is a backend whose answers the test writes.
type upstream struct {
	*httptest.Server
	t     *testing.T
	calls chan *call
}

// call is one request that reached the backend.
type call struct {
	header http.Header
	path   string
	query  string
	body   string
	frames chan string   // what to answer; closing it ends the answer
	gone   chan struct{} // closed when the gateway has left
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{t: t, calls: make(chan *call, 100)}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() {
		u.CloseClientConnections() // of answers that a failed test left open
		u.Close()
	})
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path != chatPath && !strings.HasPrefix(r.URL.Path, "/stream") {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "plain "+r.Method+" "+r.URL.Path+" "+string(body)) // the test sees it
		return
	}
	c := &call{header: r.Header.Clone(), path: r.URL.Path, query: r.URL.RawQuery, body: string(body), frames: make(chan string, 100), gone: make(chan struct{})}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush(w)
	u.calls <- c
	for {
		select {
		case frame, ok := <-c.frames:
			if !ok {
				return
			}
			_, _ = io.WriteString(w, frame) // the test sees it
			flush(w)
		case <-r.Context().Done():
			close(c.gone)
			return
		}
	}
}

func flush(w http.ResponseWriter) {
	http.NewResponseController(w).Flush()
}

// next returns the next request that reached the backend.
func (u *upstream) next() *call {
	u.t.Helper()
	select {
	case c := <-u.calls:
		return c
	case <-time.After(patience):
		u.t.Fatalf("call of the backend: got none within %v", patience)
		return nil
	}
}

// token is a frame of an answer in the shape of OpenAI chat.
func token(text string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
}

const doneMark = "data: [DONE]\n\n"

// finish ends an answer properly.
func (c *call) finish() {
	c.frames <- doneMark
	close(c.frames)
}

// proxied is a site in front of the backend.
func (u *upstream) proxied(directive string) string {
	return directive + "\nreverse_proxy " + u.Listener.Addr().String()
}
