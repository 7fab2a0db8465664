package embeddedstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
)

// defaultMemory bounds a store whose options do not.
const defaultMemory = 1 << 30

// Options are the settings of a store. The zero value is usable.
type Options struct {
	// Memory is the number of bytes above which new runs are refused; 0 means
	// 1 GiB. Frames, snapshots and a flat sum per run count.
	Memory int64
	// Path is the directory in which runs survive the process; empty: nowhere.
	// It is touched by the first call, not before.
	Path string
	// Log is told what happens to the directory; nil: nobody is.
	Log *slog.Logger
}

// Store is the embedded engine.
type Store struct {
	memory int64
	used   atomic.Int64

	mu     sync.Mutex // guards what runs compete for; taken before a run's lock
	claims claims
	agenda agenda
	births entry.Run // the number of the newest run

	runs directory
	disk *disk // nil: everything ends with the process

	kick    chan struct{} // capacity 1: the earliest deadline changed
	done    chan struct{} // closed by Close
	closing sync.Once
	working sync.WaitGroup // the sweeper and the keeper of the disk
}

var _ runregistry.Store = (*Store)(nil)

// New makes a store. The caller must close it. One with a directory opens that
// when it is used; until that has worked it is unavailable.
func New(o Options) *Store {
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	s := &Store{
		memory: o.Memory,
		claims: newClaims(),
		runs:   directory{byID: make(map[runregistry.RunID]*run)},
		kick:   make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	if o.Path != "" {
		s.disk = newDisk(o)
	}
	s.working.Go(s.sweep)
	return s
}

// Close ends the store; what it kept is gone, or in its directory. Calls that
// follow get [runregistry.ErrUnavailable], and watchers are woken to find that
// out. It returns when no goroutine of the store is left, and may be called
// again.
func (s *Store) Close() {
	s.closing.Do(func() {
		s.disk.shut()
		close(s.done)
		s.runs.wakeAll()
	})
	s.working.Wait()
	s.disk.close()
}

// Used returns the memory that counts against the bound, in bytes.
func (s *Store) Used() int64 { return s.used.Load() }

var errClosed = errors.New("store is closed")

// ready reports why the store may not be used, if so. It does not wait.
func (s *Store) ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", runregistry.ErrUnavailable, context.Cause(ctx))
	}
	select {
	case <-s.done:
		return fmt.Errorf("%w: %w", runregistry.ErrUnavailable, errClosed)
	default:
	}
	if err := s.disk.whyNot(); err != nil {
		return fmt.Errorf("%w: %w", runregistry.ErrUnavailable, err)
	}
	return nil
}

// find returns a run, after ending what is due of it. s.mu must not be held.
func (s *Store) find(ctx context.Context, id runregistry.RunID) (*run, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	r := s.runs.get(id)
	if r == nil {
		return nil, runregistry.ErrNoRun
	}
	if r.deadline.passed() {
		s.mu.Lock()
		s.sweepLocked(time.Now(), everything)
		s.mu.Unlock()
	}
	return r, nil // if it has just been removed, it says so itself
}

// findLocked is find for those who hold s.mu, and have the claims up to date
// when it returns.
func (s *Store) findLocked(ctx context.Context, id runregistry.RunID, now time.Time) (*run, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.sweepLocked(now, everything)
	if r := s.runs.get(id); r != nil {
		return r, nil
	}
	return nil, runregistry.ErrNoRun
}

// chargeLocked brings the memory account up to date; r.mu must be held.
func (s *Store) chargeLocked(r *run) {
	size := runOverhead + r.log.held + int64(len(r.rec.Snapshot))
	if size != r.charged {
		s.used.Add(size - r.charged)
		r.charged = size
	}
}

// removeLocked forgets a run that has ended; r.mu and s.mu must be held.
func (s *Store) removeLocked(r *run) {
	s.agenda.drop(&r.deadline)
	s.claims.leave(r)
	s.runs.remove(r.id)
	s.used.Add(-r.charged)
	r.charged, r.gone = 0, true
	r.log.drop()
	r.rec.Snapshot = nil
	s.litter(forgetting)
}

// directory finds runs by id. It has a lock of its own, since every call looks
// here and few change it.
type directory struct {
	mu   sync.RWMutex // guards everything below
	byID map[runregistry.RunID]*run
}

func (d *directory) get(id runregistry.RunID) *run {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

func (d *directory) add(r *run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byID[r.id] = r
}

func (d *directory) remove(id runregistry.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byID, id)
}

// all returns the runs in no order.
func (d *directory) all() []*run {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Collect(maps.Values(d.byID))
}

func (d *directory) wakeAll() {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, r := range d.byID {
		r.watchers.wake()
	}
}
