package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-agent-runs/caddy-agent-runs/caddymodule/chain"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// App keeps the runs of this Caddy: where they are stored, for how long, and
// what happens to them when Caddy stops. All agent_runs handlers of all sites
// share it. Without it in the configuration everything has its default.
type App struct {
	// Where runs are kept. A reload that names another store is refused while
	// the current one holds runs.
	Store Store `json:"store,omitzero"`

	// How long the frames of a run can be replayed, counted from its end.
	// Default: 10m.
	FrameRetention caddy.Duration `json:"frame_retention,omitempty"`

	// How long the record of a run is kept (its outcome, its snapshot, its
	// idempotency key), counted from its end. Default: 24h.
	RecordRetention caddy.Duration `json:"record_retention,omitempty"`

	// How long a run stays a gateway's after its last heartbeat, in a store that
	// several share; the heart beats every third of it. It is also how long
	// readers wait at most for the runs of a gateway that died, and a few seconds
	// more. Default: 15s.
	Lease caddy.Duration `json:"lease,omitempty"`

	// How long the client that started a run waits for a lost store before its
	// answer is broken off. Default: 10s.
	StoreGrace caddy.Duration `json:"store_grace,omitempty"`

	// How much memory the frames of all runs may take that wait for a lost
	// store. Default: 256MiB.
	StoreMemory Size `json:"store_memory,omitempty"`

	// What happens to runs when Caddy stops.
	Shutdown Shutdown `json:"shutdown,omitzero"`

	shared *sharedEngine // held from Provision to Cleanup
	log    *slog.Logger
	// surveys are of the servers of this configuration. Caddy provisions in one
	// goroutine.
	surveys map[*caddyhttp.Server]*chain.Survey
	// handlers are those of this configuration, and ruled what they say about who
	// may, once it was looked at.
	handlers []*Handler
	lookOnce sync.Once
	ruled    map[*Handler]string
}

// Store says where runs are kept.
type Store struct {
	// `embedded` (default) keeps them inside this process and in a directory, for
	// one machine; `memory` writes nothing to disk; `redis` keeps them in Redis or
	// Valkey, for any number of gateways.
	Kind string `json:"kind,omitempty"`

	// The directory of the store `embedded`, in which runs survive a restart, and
	// a kill. It belongs to one process at a time; others wait for it and answer
	// 503 meanwhile. It may have placeholders such as {env.STATE_DIRECTORY}.
	// Default: "agent_runs" in Caddy's data directory.
	Path string `json:"path,omitempty"`

	// How much memory stored runs may take: a number of bytes, or a size such as
	// "1GiB". Above it new runs are refused with 503. Default: 1GiB.
	Memory Size `json:"memory,omitempty"`

	Redis

	dir string // set by resolve if there is a path
}

// Shutdown says what happens to runs when Caddy stops. A reload is no stop:
// runs and their readers survive it.
type Shutdown struct {
	// `finish` (default) lets runs end for at most `max`; `release` ends them at
	// once, which is `finish` with 0s.
	Mode string `json:"mode,omitempty"`

	// How long runs may go on under `finish`. Keep it below the time after which
	// the supervisor kills the process. Default: 4s.
	Max caddy.Duration `json:"max,omitempty"`
}

// The defaults of the app.
const (
	defaultMemory   Size = 1 << 30
	defaultShutdown      = 4 * time.Second
)

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "agent_runs", New: func() caddy.Module { return new(App) }}
}

// Provision takes a reference to the store. It opens nothing: `caddy validate`
// provisions too, perhaps beside a server that runs.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Slogger()
	a.surveys = make(map[*caddyhttp.Server]*chain.Survey)
	if err := metrics.Register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := a.listen(ctx); err != nil {
		return err
	}
	if err := a.Store.resolve(); err != nil {
		return err
	}
	var err error
	if a.shared, err = engines.acquire(a.Store); err != nil {
		return err
	}
	a.shared.prepare(a.sharing(), a.log)
	return nil
}

// The events of Caddy that concern runs.
const (
	// eventStarted comes when all apps of a configuration have started. Before,
	// one of them may still fail, and the configuration before goes on.
	eventStarted = "started"
	// eventStopping comes before any app stops. Apps stop in random order, and
	// the http app waits for its streams.
	eventStopping = "stopping"
)

// listen asks for the events.
func (a *App) listen(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("loading events app: %w", err)
	}
	events, ok := app.(*caddyevents.App)
	if !ok {
		return fmt.Errorf("loading events app: got a %T", app)
	}
	if err := errors.Join(events.On(eventStarted, listener{a}), events.On(eventStopping, listener{a})); err != nil {
		return fmt.Errorf("listening for events: %w", err)
	}
	return nil
}

// listener puts the settings of a configuration in force once it runs, and
// drains the engine before it stops.
type listener struct{ app *App }

// Handle implements caddyevents.Handler. Caddy emits stopping for reloads too,
// which concern no run.
func (l listener) Handle(_ context.Context, e caddy.Event) error {
	switch shared := l.app.shared; {
	case e.Name() == eventStarted:
		shared.adopt(l.app.Store, l.app.sharing(), l.app.log)
		shared.rules.replace(l.app.rules())
	case e.Name() == eventStopping && caddy.Exiting():
		shared.drain()
	}
	return nil
}

// Validate implements caddy.Validator.
func (a *App) Validate() error { return a.check() }

// check tells every mistake at once.
func (a *App) check() error {
	return errors.Join(a.Store.check(), a.checkRetention(), a.checkSharing(), a.Shutdown.check())
}

func (s Store) check() error {
	errs := []error{s.checkPath()}
	switch {
	case s.Kind == storeRedis:
		errs = append(errs, s.Redis.check())
		if s.Memory != 0 {
			errs = append(errs, clash("store.memory", "belongs to stores inside this process; Redis has a maxmemory of its own"))
		}
	case s.Kind != "" && s.Kind != storeEmbedded && s.Kind != storeMemory:
		errs = append(errs, wrong("store", s.Kind, storeAllowed))
	case !s.Redis.unused():
		errs = append(errs, clash("store", "has options of store redis, but its kind is not redis"))
	}
	if s.Memory < 0 || s.Memory > 0 && s.Memory < 1<<20 {
		errs = append(errs, wrong("store.memory", s.Memory.String(), "1MiB or more"))
	}
	return errors.Join(errs...)
}

func (a *App) checkRetention() error {
	frames, record := a.retention()
	switch {
	case a.FrameRetention < 0:
		return wrong("frame_retention", words(frames), "a duration above 0")
	case a.RecordRetention < 0:
		return wrong("record_retention", words(record), "a duration above 0")
	case frames > record && a.FrameRetention != 0:
		return clash("frame_retention", "%s is longer than record_retention %s: frames go with their record", words(frames), words(record))
	case frames > record:
		return clash("record_retention", "%s is shorter than frame_retention %s: frames go with their record", words(record), words(frames))
	}
	return nil
}

func (s Shutdown) check() error {
	switch {
	case s.Mode != "" && s.Mode != "finish" && s.Mode != "release":
		return wrong("shutdown", s.Mode, shutdownAllowed)
	case s.Max < 0:
		return wrong("shutdown", words(time.Duration(s.Max)), "finish with a duration above 0, release")
	case s.Mode == "release" && s.Max != 0:
		return clash("shutdown", "release takes no duration")
	}
	return nil
}

// retention returns how long frames and records are kept.
func (a *App) retention() (frames, record time.Duration) {
	d := proxy.DefaultConfig()
	return durationOr(a.FrameRetention, d.FrameRetention), durationOr(a.RecordRetention, d.RecordRetention)
}

// minLease keeps heartbeats apart from round trips.
const minLease = time.Second

func (a *App) checkSharing() error {
	s := a.sharing()
	switch {
	case s.Lease < minLease:
		return wrong("lease", words(s.Lease), words(minLease)+" or more")
	case s.Grace < 0:
		return wrong("store_grace", words(s.Grace), "a duration above 0")
	case s.Memory < 0:
		return wrong("store_memory", a.StoreMemory.String(), "a size above 0")
	}
	return nil
}

// sharing returns how the store is shared.
func (a *App) sharing() proxy.Sharing {
	s := proxy.DefaultSharing()
	s.Lease = durationOr(a.Lease, s.Lease)
	s.Grace = durationOr(a.StoreGrace, s.Grace)
	setIf(&s.Memory, int64(a.StoreMemory))
	return s
}

// resolve finds out where the store is.
func (s *Store) resolve() error {
	if s.Kind != storeRedis {
		return s.resolvePath()
	}
	return s.Redis.resolve()
}

// memory returns the memory bound of the store. Redis has its own.
func (s Store) memory() Size {
	switch {
	case s.Kind == storeRedis:
		return math.MaxInt64
	case s.Memory == 0:
		return defaultMemory
	}
	return s.Memory
}

// wait returns how long runs may go on when Caddy stops.
func (s Shutdown) wait() time.Duration {
	if s.Mode == "release" {
		return 0
	}
	return durationOr(s.Max, defaultShutdown)
}

// Start opens the store, unless a request came first: apps start in random
// order.
func (a *App) Start() error {
	if _, err := a.shared.open(); err != nil {
		return fmt.Errorf("opening store: %w", err)
	}
	return nil
}

// Stop lets runs end when the process does. On a reload it does nothing, and
// at once: Caddy holds its configuration lock meanwhile.
func (a *App) Stop() error {
	if !caddy.Exiting() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Shutdown.wait())
	defer cancel()
	return a.shared.close(ctx)
}

// Cleanup gives the store back. Caddy also calls it when Provision failed
// half-way.
func (a *App) Cleanup() error {
	if a.shared == nil {
		return nil
	}
	engines.release(a.shared, a.Shutdown.wait())
	a.shared = nil
	return nil
}

// Interface guards.
var (
	_ caddy.App           = (*App)(nil)
	_ caddy.Provisioner   = (*App)(nil)
	_ caddy.Validator     = (*App)(nil)
	_ caddy.CleanerUpper  = (*App)(nil)
	_ caddyevents.Handler = listener{}
)
