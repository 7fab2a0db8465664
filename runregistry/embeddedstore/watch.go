package embeddedstore

import (
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// hub wakes those who watch one run. Its lock is taken last and held shortly.
type hub struct {
	mu       sync.Mutex // guards everything below
	watchers []*watcher
	readers  int
}

type watcher struct {
	c       chan struct{}
	at      int // index in hub.watchers
	reading bool
}

// join adds a watcher. A reading one counts until it is closed.
func (h *hub) join(reading bool) *runregistry.Watch {
	w := &watcher{c: make(chan struct{}, 1), reading: reading}
	h.mu.Lock()
	defer h.mu.Unlock()
	w.at = len(h.watchers)
	h.watchers = append(h.watchers, w)
	if reading {
		h.readers++
	}
	return runregistry.NewWatch(w.c, func() { h.leave(w) })
}

// leave removes a watcher. When nobody reads any more the others are told: a
// start may wait for just that.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.watchers) - 1
	h.watchers[w.at] = h.watchers[last]
	h.watchers[w.at].at = w.at
	h.watchers[last] = nil
	h.watchers = h.watchers[:last]
	if !w.reading {
		return
	}
	if h.readers--; h.readers == 0 {
		h.wakeLocked()
	}
}

// wake tells every watcher to look again. A signal that is still pending
// stands for this one too.
func (h *hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeLocked()
}

func (h *hub) wakeLocked() {
	for _, w := range h.watchers {
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}

// reading returns the number of readers.
func (h *hub) reading() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readers
}
