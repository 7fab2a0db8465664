package proxy

import (
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// seats bounds the readers of each run on this instance. When a run has no
// seat left, the same owner's oldest reader makes room: a phone that changed
// networks must not be locked out by its own dead connections.
type seats struct {
	metrics *Metrics

	mu    sync.Mutex // guards taken
	taken map[runregistry.RunID][]*seat
}

func newSeats(m *Metrics) *seats {
	return &seats{metrics: m, taken: make(map[runregistry.RunID][]*seat)}
}

// seat is the place of one reader.
type seat struct {
	seats *seats
	run   runregistry.RunID
	ended chan struct{} // closed when the reader must leave
}

// take gives a reader a seat; limit 0 is none.
func (s *seats) take(rec *runregistry.Record, limit int) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	sitting := s.taken[rec.ID]
	if limit > 0 && len(sitting) >= limit {
		close(sitting[0].ended)
		sitting = sitting[1:]
	}
	s.metrics.readerCame()
	taken := &seat{seats: s, run: rec.ID, ended: make(chan struct{})}
	s.taken[rec.ID] = append(sitting, taken)
	return taken
}

// leave gives the seat back.
func (t *seat) leave() {
	s := t.seats
	s.metrics.readerLeft()
	s.mu.Lock()
	defer s.mu.Unlock()
	sitting := s.taken[t.run]
	for i, other := range sitting {
		if other == t {
			sitting = append(sitting[:i], sitting[i+1:]...)
			break
		}
	}
	if len(sitting) == 0 {
		delete(s.taken, t.run)
		return
	}
	s.taken[t.run] = sitting
}
