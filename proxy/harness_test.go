package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// errDial is what the test host takes for a failed dial.
var errDial = errors.New("connection refused")

// plainHost is a host without a server around it.
type plainHost struct{ errorRoutes bool }

func (plainHost) Detach(ctx context.Context, r *http.Request, _ proxy.About) *http.Request {
	return r.Clone(ctx)
}
func (plainHost) Impersonal(r *http.Request) *http.Request { return r.Clone(context.Background()) }
func (plainHost) Annotate(*http.Request, proxy.About)      {}
func (plainHost) Expand(_ *http.Request, template string, h http.Header) string {
	return strings.ReplaceAll(template, "{release}", h.Get("X-Agent-Release"))
}
func (plainHost) Undelivered(err error) bool              { return errors.Is(err, errDial) }
func (h plainHost) HandlesErrors(*http.Request, int) bool { return h.errorRoutes }
func (plainHost) Error(status int, err error) error       { return fmt.Errorf("%d: %w", status, err) }
func (plainHost) OriginalPath(r *http.Request) string     { return r.URL.Path }

// site is a gateway in front of one scripted backend, on a network of its own.
type site struct {
	testkit.Client
	t       *testing.T
	engine  *proxy.Engine
	store   *embeddedstore.Store
	metrics *proxy.Metrics
	log     *journal
	calls   atomic.Int64
	working sync.WaitGroup // backends that have not returned
	broken  chan error     // what the handler returned to the server
	handler http.Handler   // the gateway without a network
}

// backend answers one call; n counts from 1.
type backend func(n int, w http.ResponseWriter, r *http.Request) error

// setup is everything about a site that a test may choose.
type setup struct {
	config   []func(*proxy.Config)
	identity authz.Identity                            // default: the subject header
	policy   authz.Policy                              // default: the owner
	tickets  *authz.Tickets                            // default: none
	newRules func() <-chan struct{}                    // default: never
	store    func(runregistry.Store) runregistry.Store // wraps the store
	host     proxy.Host                                // default: plainHost
	tracer   trace.Tracer
	seal     *authz.Seal // of requests for gateways behind this one
}

// newSite serves a gateway until the test ends. Inside a bubble, call it
// inside.
func newSite(t *testing.T, b backend, change ...func(*proxy.Config)) *site {
	t.Helper()
	return setup{config: change}.open(t, b)
}

func (o setup) open(t *testing.T, b backend) *site {
	t.Helper()
	s := &site{
		t: t, store: embeddedstore.New(embeddedstore.Options{}), metrics: proxy.NewMetrics(),
		log: &journal{}, broken: make(chan error, 100),
	}
	h := o.gateway(t, s)
	next := func(w http.ResponseWriter, r *http.Request) error {
		s.working.Add(1)
		defer s.working.Done()
		return b(int(s.calls.Add(1)), w, r)
	}
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.ServeHTTP(w, r, next); err != nil {
			s.broken <- err
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	s.Client = testkit.ServePipe(t, s.handler).As("user-a")
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.engine.Close(now) // its error is the cancelled context
		s.working.Wait()        // it does not wait for those that do not listen
		s.store.Close()
	})
	return s
}

func (o setup) gateway(t testing.TB, s *site) *proxy.Handler {
	t.Helper()
	cfg := proxy.DefaultConfig()
	for _, f := range o.config {
		f(&cfg)
	}
	var store runregistry.Store = s.store
	if o.store != nil {
		store = o.store(store)
	}
	if o.host == nil {
		o.host = plainHost{}
	}
	if o.identity == nil {
		o.identity = &authz.Header{Subject: testkit.SubjectHeader, Trusted: func(*http.Request) bool { return true }}
	}
	log := slog.New(slog.NewJSONHandler(s.log, nil))
	s.engine = proxy.NewEngine(store, log, s.metrics)
	h, err := proxy.New(cfg, proxy.Deps{
		Policy: o.policy, Tickets: o.tickets, Superseded: o.newRules,
		Engine: s.engine, Host: o.host, Log: log, Metrics: s.metrics, Identity: o.identity, Tracer: o.tracer, Seal: o.seal,
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return h
}

// openaiChat makes the dialect known from the start.
func openaiChat(c *proxy.Config) { c.Dialect = "openai-chat" }

func generic(c *proxy.Config) { c.Dialect = "generic" }

// chatFrame is one delta of an OpenAI chat stream.
func chatFrame(text string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

const chatDone = "data: [DONE]\n\n"

// sse begins an event stream.
func sse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
}

// say writes one piece to the gateway; an error means that it hung up.
func say(w http.ResponseWriter, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// pause waits like a backend that respects its caller's leaving.
func pause(r *http.Request, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
}

// hangUp is how a proxy ends when its caller left in mid-body.
func hangUp() { panic(http.ErrAbortHandler) }

// inBubble runs a test in a bubble: time passes when nobody moves.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// datas joins the data of events.
func datas(events []testkit.Event) string {
	all := make([]string, 0, len(events))
	for _, e := range events {
		all = append(all, e.Data)
	}
	return strings.Join(all, "|")
}

func itoa(n int) string { return strconv.Itoa(n) }

// configure changes the configuration of a site.
type configure = func(*proxy.Config)

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements [io.Writer].
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns everything so far.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
