package embeddedstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal"
)

const (
	// maxReserve is how much of the disk is kept for runs that are under way when
	// it is full.
	maxReserve = 16 << 20
	// defaultSlack is how many bytes of the files may count for nothing, beside
	// as many as those that count.
	defaultSlack = 32 << 20
	// erasure and forgetting are how long content stays on the disk after its run
	// was deleted, and after it expired.
	erasure    = time.Minute
	forgetting = 10 * time.Minute
	// rest is how many times longer than a rewrite the pause after it is: many
	// deletions must not keep the disk busy.
	rest = 20
)

// disk is the part of a store that outlives its process.
type disk struct {
	options journal.Options
	slack   int64
	log     *slog.Logger

	journal atomic.Pointer[journal.Journal] // nil until it is open
	tried   chan struct{}                   // closed when it was tried to open for the first time
	kick    chan struct{}                   // capacity 1: look after the journal
	ceiling atomic.Int64                    // size above which a rewrite is due

	mu      sync.Mutex // guards everything below
	keeping bool       // the keeper was started
	closed  bool
	failed  error     // why the journal is not open
	due     time.Time // when to rewrite; zero: nothing to do
	resting time.Time // not before this
}

func newDisk(o Options) *disk {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &disk{
		options: journal.Options{Dir: o.Path, Reserve: min(maxReserve, o.Memory/64)},
		slack:   defaultSlack,
		log:     log,
		tried:   make(chan struct{}),
		kick:    make(chan struct{}, 1),
	}
}

// errOpening means that the store has not read its directory yet.
var errOpening = errors.New("store is being opened")

// Open begins to open the directory, if there is one, and does not wait for
// it. Without it the first call begins.
func (s *Store) Open() {
	d := s.disk
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keeping || d.closed {
		return
	}
	d.keeping, d.failed = true, errOpening
	s.working.Go(s.keep)
}

// await is ready for calls that do not hold a lock: it waits until the
// directory has been read, or found to be in use by another process.
func (s *Store) await(ctx context.Context) error {
	if s.disk == nil || s.disk.journal.Load() != nil {
		return s.ready(ctx)
	}
	s.Open()
	select {
	case <-s.disk.tried:
	case <-s.done:
	case <-ctx.Done():
	}
	return s.ready(ctx)
}

// whyNot returns why the journal is not open, nil if it is.
func (d *disk) whyNot() error {
	if d == nil || d.journal.Load() != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// record writes entries to the journal, in one record: before what they tell is
// applied, under the lock that it is applied under. Without a directory it does
// nothing.
func (s *Store) record(c journal.Class, fill func([]byte) []byte) (journal.Position, error) {
	if s.disk == nil {
		return 0, nil
	}
	at, err := s.disk.append(c, fill)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", runregistry.ErrUnavailable, err)
	}
	return at, nil
}

func (d *disk) append(c journal.Class, fill func([]byte) []byte) (journal.Position, error) {
	j := d.journal.Load()
	if j == nil {
		return 0, errOpening
	}
	at, err := j.Append(c, fill)
	if err != nil || j.Size() > d.ceiling.Load() {
		d.wakeKeeper()
	}
	return at, err
}

// sync returns when everything up to a position survives a power cut. No lock
// must be held, so that those who come meanwhile share the next sync.
func (s *Store) sync(at journal.Position) error {
	if at == 0 || s.disk == nil {
		return nil
	}
	if err := s.disk.journal.Load().Sync(at); err != nil {
		s.disk.wakeKeeper()
		return fmt.Errorf("%w: %w", runregistry.ErrUnavailable, err)
	}
	return nil
}

// litter tells that something on the disk counts for nothing any more, and must
// go within a time.
func (s *Store) litter(within time.Duration) {
	d := s.disk
	if d == nil {
		return
	}
	d.mu.Lock()
	at := time.Now().Add(within)
	sooner := d.due.IsZero() || at.Before(d.due)
	if sooner {
		d.due = at
	}
	d.mu.Unlock()
	if sooner {
		d.wakeKeeper()
	}
}

func (d *disk) wakeKeeper() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// shut keeps the keeper from being started.
func (d *disk) shut() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// close gives the directory back; the keeper must have ended.
func (d *disk) close() {
	if d == nil {
		return
	}
	if j := d.journal.Load(); j != nil {
		if err := j.Close(); err != nil {
			d.log.Error("closing the store failed", slog.Any("error", err))
		}
	}
}
