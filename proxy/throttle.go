package proxy

import (
	"context"
	"sync"
)

// plainAhead is how far a plain body may run ahead of the client that waits
// for it. A stream of frames is never slowed by a reader; a download would
// only fill the store.
const plainAhead = 4 << 20

// throttle holds the pump of a plain body back while its delivery lags.
type throttle struct {
	mu     sync.Mutex // guards everything below
	ahead  int64
	off    bool
	behind chan struct{} // capacity 1: the delivery caught up
}

func newThrottle() *throttle { return &throttle{behind: make(chan struct{}, 1)} }

// produced counts n bytes and waits until the delivery is near enough.
func (t *throttle) produced(ctx context.Context, n int) {
	t.move(int64(n))
	for t.far() {
		select {
		case <-t.behind:
		case <-ctx.Done():
			return
		}
	}
}

// delivered counts n bytes that reached the client.
func (t *throttle) delivered(n int) {
	t.move(-int64(n))
	t.signal()
}

// release ends the throttle: the delivery is over.
func (t *throttle) release() {
	t.mu.Lock()
	t.off = true
	t.mu.Unlock()
	t.signal()
}

func (t *throttle) move(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead += n
}

func (t *throttle) far() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.off && t.ahead > plainAhead
}

func (t *throttle) signal() {
	select {
	case t.behind <- struct{}{}:
	default:
	}
}
