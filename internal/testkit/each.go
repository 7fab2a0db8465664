package testkit

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Each runs f n times as subtests, at most limit at once, and returns when all
// have ended. It begins none after one has failed.
func Each(t *testing.T, n, limit int, f func(t *testing.T, i int)) {
	t.Helper()
	var all sync.WaitGroup
	turn := make(chan struct{}, limit)
	for i := range n {
		turn <- struct{}{}
		if t.Failed() {
			break
		}
		all.Go(func() {
			defer func() { <-turn }()
			t.Run(strconv.Itoa(i), func(t *testing.T) { f(t, i) })
		})
	}
	all.Wait()
}

// Barrier lets n goroutines go on together.
type Barrier struct {
	missing atomic.Int32
	open    chan struct{}
}

// NewBarrier returns a barrier for n goroutines.
func NewBarrier(n int) *Barrier {
	b := &Barrier{open: make(chan struct{})}
	b.missing.Store(int32(n))
	return b
}

// Wait waits until all n have called it.
func (b *Barrier) Wait(t testing.TB) {
	t.Helper()
	if b.missing.Add(-1) == 0 {
		close(b.open)
	}
	select {
	case <-b.open:
	case <-time.After(Patience):
		t.Fatal("not everybody came to the barrier")
	}
}
