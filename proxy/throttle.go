package proxy

import (
	"context"
	"sync"
)

// plainAhead is how far a plain body may run ahead of the client that waits
// for it, unless its log is trimmed earlier. A stream of frames is never slowed by a reader; a download would
// only fill the store.
const plainAhead = 4 << 20

// throttle holds the pump of a plain body back while its delivery lags.
type throttle struct {
	mu     sync.Mutex // guards everything below
	ahead  int64
	limit  int64
	off    bool
	behind chan struct{} // capacity 1: the delivery caught up
}

func newThrottle(stored int64) *throttle {
	t := &throttle{limit: plainAhead, behind: make(chan struct{}, 1)}
	if stored > 0 {
		t.limit = min(t.limit, stored/2)
	}
	return t
}

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
	return !t.off && t.ahead > t.limit
}

func (t *throttle) signal() {
	select {
	case t.behind <- struct{}{}:
	default:
	}
}
