package redisstore

import (
	"context"
	"time"
)

// keep tells Redis how many readers there are, and ends subscriptions, until
// the store closes. Nothing that a caller waits for is done here.
func (s *Store) keep() {
	_, lease := s.me()
	again := time.NewTimer(lease / 3)
	defer again.Stop()
	for {
		all := false
		select {
		case <-s.done:
			return
		case <-s.kick:
		case <-again.C:
			all = true
			_, lease = s.me()
			again.Reset(lease / 3)
		}
		s.tellReaders(all)
		for _, leave := range s.tails.farewells() {
			leave()
		}
	}
}

// tellReaders sends the numbers of readers. What is lost is sent again with the
// next beat, and counts for no longer than a lease.
func (s *Store) tellReaders(all bool) {
	news := s.tails.counts(all)
	calls := make([]*params, len(news))
	for i, c := range news {
		calls[i] = s.counting(c.run, c.n, c.stamp)
	}
	s.evalAll(context.Background(), s.clients.calls, calls)
}
