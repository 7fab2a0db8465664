package faultstore

import (
	"context"
	"maps"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Store wraps an engine.
type Store struct {
	inner runregistry.Store

	mu    sync.Mutex // guards everything below
	plan  map[Call][]Fault
	holds map[Call]*hold
	calls map[Call]int
	down  bool
	deaf  bool // hints are lost
}

var _ runregistry.Store = (*Store)(nil)

// hold is a gate in front of a call.
type hold struct {
	arrived chan struct{}
	open    chan struct{}
}

// heldCalls bounds the calls that one hold reports.
const heldCalls = 1024

// Wrap returns a store that behaves like inner until told otherwise.
func Wrap(inner runregistry.Store) *Store {
	return &Store{
		inner: inner,
		plan:  make(map[Call][]Fault),
		holds: make(map[Call]*hold),
		calls: make(map[Call]int),
	}
}

// Plan makes the next n calls meet a fault, after those planned before. What
// is planned for one call comes before what is planned for [Any].
func (s *Store) Plan(c Call, n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.plan[c] = append(s.plan[c], f)
	}
}

// Hold makes calls wait until they are released or their context ends.
func (s *Store) Hold(c Call) *Held {
	h := &hold{arrived: make(chan struct{}, heldCalls), open: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[c] = h
	return &Held{Arrived: h.arrived, release: sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holds[c] == h {
			delete(s.holds, c)
		}
		close(h.open)
	})}
}

// Down makes the store unreachable until [Store.Up]. Plans wait.
func (s *Store) Down() { s.setDown(true) }

// Up makes it reachable again.
func (s *Store) Up() { s.setDown(false) }

func (s *Store) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// LoseHints makes watches that are opened from now on tell nothing: their
// owners have to look by themselves.
func (s *Store) LoseHints() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
}

// Calls returns how often a call was made, whatever became of it; [Any]
// counts all.
func (s *Store) Calls(c Call) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[c]
}

// AllCalls returns how often each call was made so far; [Any] counts all.
func (s *Store) AllCalls() map[Call]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// arrive counts a call and returns what it meets.
func (s *Store) arrive(c Call) (f Fault, gate *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[c]++
	s.calls[Any]++
	for _, name := range []Call{c, Any} {
		if h := s.holds[name]; h != nil && gate == nil {
			gate = h
		}
	}
	if s.down {
		return Fail(), gate
	}
	for _, name := range []Call{c, Any} {
		if planned := s.plan[name]; len(planned) > 0 {
			s.plan[name] = planned[1:]
			return planned[0], gate
		}
	}
	return Fault{}, gate
}

// meet lets a call wait and fail before it is carried out, and returns what to
// say about it afterwards.
func (s *Store) meet(ctx context.Context, c Call) (lost, err error) {
	f, gate := s.arrive(c)
	if gate != nil {
		gate.arrived <- struct{}{}
		if err := wait(ctx, gate.open); err != nil {
			return nil, err
		}
	}
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return nil, err
		}
	}
	return f.after, nil
}

// pass makes a call that has a result.
func pass[T any](ctx context.Context, s *Store, c Call, call func() (T, error)) (T, error) {
	var none T
	lost, err := s.meet(ctx, c)
	if err != nil {
		return none, err
	}
	result, err := call()
	if lost != nil {
		discard(result)
		return none, lost
	}
	return result, err
}

// discard gives back what the caller of a lost reply cannot.
func discard(result any) {
	switch r := result.(type) {
	case *runregistry.Decision:
		if r != nil {
			r.Watch.Close()
		}
	case *runregistry.Watch:
		r.Close()
	}
}

// hearing returns the watch, or one that is told nothing.
func (s *Store) hearing(w *runregistry.Watch) *runregistry.Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.deaf || w == nil {
		return w
	}
	return runregistry.NewWatch(make(chan struct{}, 1), w.Close)
}
