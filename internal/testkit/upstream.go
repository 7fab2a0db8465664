package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// StageHeader is the request header that chooses what an upstream plays.
const StageHeader = "X-Stage"

var errStopped = errors.New("a cancel call ended the stream")

// Upstream is a scripted backend. Tests that share one put their scripts on
// stages of their own; a request that names no stage gets the first one.
type Upstream struct {
	server *httptest.Server

	mu     sync.Mutex // guards everything below
	stages []*Stage
}

// NewUpstream starts an upstream on a loopback port.
func NewUpstream(t testing.TB) *Upstream {
	t.Helper()
	u := OpenUpstream()
	t.Cleanup(u.Close)
	return u
}

// OpenUpstream is [NewUpstream] for an upstream that outlives one test; the
// caller closes it.
func OpenUpstream() *Upstream {
	u := &Upstream{}
	u.server = httptest.NewServer(u)
	return u
}

// Close ends all connections and waits for the scripts.
func (u *Upstream) Close() {
	u.server.CloseClientConnections()
	u.server.Close()
}

// Addr is host and port.
func (u *Upstream) Addr() string { return u.server.Listener.Addr().String() }

// URL is where the upstream is reached without a gateway.
func (u *Upstream) URL() string { return u.server.URL }

// Stage is one script, or one script per call, with a record of its calls.
type Stage struct {
	name    string
	scripts []Script

	mu      sync.Mutex // guards everything below
	calls   []*Call
	cancels []*Call
	cancel  Op
	arrived chan struct{} // closed and replaced with each call
}

// Stage adds a stage. The n-th start plays the n-th script, later ones the
// last.
func (u *Upstream) Stage(scripts ...Script) *Stage {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &Stage{name: strconv.Itoa(len(u.stages)), scripts: scripts, cancel: Op{Code: http.StatusNotFound}, arrived: make(chan struct{})}
	u.stages = append(u.stages, s)
	return s
}

// Name is the value of [StageHeader] that leads here.
func (s *Stage) Name() string { return s.name }

func (u *Upstream) stage(name string) *Stage {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := strconv.Atoi(name)
	if err != nil {
		n = 0
	}
	if n >= len(u.stages) {
		return nil
	}
	return u.stages[n]
}

// ServeHTTP plays the stage that the request names.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := u.stage(r.Header.Get(StageHeader))
	if s == nil {
		http.Error(w, "no such stage", http.StatusTeapot)
		return
	}
	s.ServeHTTP(w, r)
}

// ServeHTTP plays the stage in this process, without an upstream around it.
func (s *Stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the peer left in the middle of its request
	}
	call := &Call{
		Method: r.Method, URI: r.URL.RequestURI(), Host: r.Host, Header: r.Header.Clone(), Body: body,
		closed: make(chan struct{}), done: make(chan struct{}),
	}
	if isCancel(r) {
		s.answerCancel(w, call)
		return
	}
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	call.stop = stop
	script := s.enter(call)
	call.run(ctx, func() bool {
		p := &player{w: w, rc: http.NewResponseController(w), call: call, stage: s, code: http.StatusOK}
		return p.play(ctx, script)
	})
}

// isCancel tells the control calls that stop a generation.
func isCancel(r *http.Request) bool {
	for _, end := range []string{"/cancel", "/stop", "/abort"} {
		if strings.HasSuffix(r.URL.Path, end) {
			return true
		}
	}
	return false
}

func (s *Stage) enter(call *Call) Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := s.scripts[min(len(s.calls), len(s.scripts)-1)]
	s.calls = append(s.calls, call)
	close(s.arrived)
	s.arrived = make(chan struct{})
	return script
}

func (s *Stage) setCancel(op Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = op
}

func (s *Stage) answerCancel(w http.ResponseWriter, call *Call) {
	s.mu.Lock()
	s.cancels = append(s.cancels, call)
	op, calls := s.cancel, s.calls
	s.mu.Unlock()
	if op.Then == "stop" {
		for _, c := range calls {
			c.stop(errStopped)
		}
	}
	if len(op.Bytes) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(op.Code)
	_, _ = w.Write(op.Bytes) // a caller that left does not matter
}

// Calls returns the starts that arrived so far.
func (s *Stage) Calls() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Cancels returns the cancel calls that arrived so far.
func (s *Stage) Cancels() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cancels)
}

// Starts is the number of starts that arrived so far.
func (s *Stage) Starts() int { return len(s.Calls()) }

// Call waits for the n-th start, from 1.
func (s *Stage) Call(t testing.TB, n int) *Call {
	t.Helper()
	late := time.After(Patience)
	for {
		s.mu.Lock()
		calls, arrived := s.calls, s.arrived
		s.mu.Unlock()
		if len(calls) >= n {
			return calls[n-1]
		}
		select {
		case <-arrived:
		case <-late:
			t.Fatalf("upstream got %d calls, want %d", len(calls), n)
		}
	}
}

// Patience bounds every wait of this package. It is far above what an idle
// machine needs, so that a loaded one does not fail a test.
const Patience = 60 * time.Second

// Listen returns a listener on a free loopback port.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
