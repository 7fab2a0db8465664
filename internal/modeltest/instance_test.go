package modeltest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// instance is one gateway process: everything but the process.
type instance struct {
	link    *link
	store   *freezing
	engine  *proxy.Engine
	handler *proxy.Handler
	// troubled is set for good once something was done to it that may make it
	// lose a lease or refuse a request.
	troubled atomic.Bool

	mu      sync.Mutex // guards readers
	readers map[*context.CancelFunc]bool
}

// cutOff ends the connections of all clients.
func (i *instance) cutOff() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for leave := range i.readers {
		(*leave)()
	}
}

// attach counts a connection until its context ends.
func (i *instance) attach() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	i.mu.Lock()
	defer i.mu.Unlock()
	i.readers[&cancel] = true
	return ctx, func() {
		cancel()
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.readers, &cancel)
	}
}

// freezing is an instance's store. Its process can be frozen at the
// worst moments of all.
type freezing struct {
	*redisstore.Store

	link *link

	mu       sync.Mutex // guards everything below
	next     moment     // freeze there
	frozen   chan struct{}
	deaf     bool                       // it will not hear that its next intent was stored
	intended map[runregistry.RunID]bool // what it may dispatch
}

// moment is when a process freezes.
type moment int

// The moments: at once, or right after an intent or a takeover was stored.
const (
	now moment = iota
	atIntent
	atTakeover
)

var momentNames = []string{"now", "at its next intent", "at its next takeover"}

// Intend implements [runregistry.Writer].
func (f *freezing) Intend(ctx context.Context, l runregistry.Lease) (*runregistry.Record, error) {
	rec, err := f.Store.Intend(ctx, l)
	f.reach(atIntent, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.deaf {
		f.deaf = false
		return nil, fmt.Errorf("reply to the intent: %w", runregistry.ErrUnavailable)
	}
	f.intended[l.Run] = err == nil
	return rec, err
}

// may reports whether the process was told that an intent was stored.
func (f *freezing) may(id runregistry.RunID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.intended[id]
}

// miss makes the process not hear that its next intent was stored.
func (f *freezing) miss() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = true
}

// TakeOver implements [runregistry.Leaser].
func (f *freezing) TakeOver(ctx context.Context, id runregistry.RunID) (runregistry.Lease, *runregistry.Record, error) {
	l, rec, err := f.Store.TakeOver(ctx, id)
	f.reach(atTakeover, err)
	return l, rec, err
}

// reach waits if the process is frozen, or is to freeze at this moment.
func (f *freezing) reach(m moment, err error) {
	f.mu.Lock()
	if f.next == m && err == nil {
		f.next = now
		f.frozen = make(chan struct{})
		f.link.set(linkLate)
	}
	frozen := f.frozen
	f.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// freeze stops the process at a moment.
func (f *freezing) freeze(m moment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m != now {
		f.next = m
		return
	}
	if f.frozen == nil {
		f.frozen = make(chan struct{})
	}
	f.link.set(linkLate)
}

// die cuts the store off for good.
func (f *freezing) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = now
	f.link.set(linkCut)
	f.thaw()
}

// thaw lets the process go on; f.mu must be held.
func (f *freezing) thaw() {
	if f.frozen != nil {
		close(f.frozen)
		f.frozen = nil
	}
}

// mend ends every trouble with the store.
func (f *freezing) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.deaf = now, false
	f.link.set(linkUp)
	f.link.loseReplies(0)
	f.thaw()
}

// host is the least that a gateway needs around it. It tells the backend which
// run calls.
type host struct{}

type runKey struct{}

func (host) Detach(ctx context.Context, r *http.Request, about proxy.About) *http.Request {
	return r.Clone(context.WithValue(ctx, runKey{}, about.RunID))
}
func (host) Impersonal(r *http.Request) *http.Request { return r.Clone(context.Background()) }
func (host) Annotate(*http.Request, proxy.About)      {}
func (host) Expand(_ *http.Request, template string, _ http.Header) string {
	return template
}
func (host) OriginalPath(r *http.Request) string   { return r.URL.Path }
func (host) Undelivered(error) bool                { return false }
func (host) HandlesErrors(*http.Request, int) bool { return false }
func (host) Error(_ int, err error) error          { return err }

// openStore opens a store behind a link. It has more connections than there
// are goroutines: a client that waits for one does so with timers that it
// shares among bubbles.
func openStore(l *link) (*redisstore.Store, error) {
	return redisstore.Open(redisstore.Options{
		Addrs: []string{testkit.BubbleAddr}, Dialer: l.dial, PoolSize: 256, Log: quiet,
	})
}

// newInstance starts a gateway on the store of the world.
func (w *world) newInstance() *instance {
	i := &instance{link: newLink(w.redis), readers: make(map[*context.CancelFunc]bool)}
	w.links = append(w.links, i.link)
	store, err := openStore(i.link)
	if err != nil {
		w.Fatal(err)
	}
	i.store = &freezing{Store: store, link: i.link, intended: make(map[runregistry.RunID]bool)}
	metrics := proxy.NewMetrics()
	i.engine = proxy.NewEngine(i.store, quiet, metrics)
	sharing := proxy.DefaultSharing()
	sharing.Lease = lease
	i.engine.Share(sharing)
	cfg := proxy.DefaultConfig()
	cfg.Starts = []proxy.StartPattern{{Method: http.MethodPost, Path: "/generate"}}
	cfg.Dialect, cfg.Busy, cfg.Keepalive = "generic", w.busy, 0
	cfg.FrameRetention, cfg.RecordRetention = frameRetention, recordRetention
	i.handler, err = proxy.New(cfg, proxy.Deps{
		Engine: i.engine, Host: host{}, Log: quiet, Metrics: metrics,
		Identity: &authz.Header{Subject: testkit.SubjectHeader, Trusted: func(*http.Request) bool { return true }},
	})
	if err != nil {
		w.Fatal(err)
	}
	return i
}

// close ends an instance. Its runs end as those of a gateway that stops, which
// the store of a dead one does not hear.
func (i *instance) close() {
	now, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the instance is closed"))
	_ = i.engine.Close(now) // it reports the cause
	i.store.Close()
	i.link.working.Wait()
}
