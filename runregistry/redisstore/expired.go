package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A replica that became master may never have heard of the newest renewals, and
// a server that restarts may have lost them: leases of owners that live look
// expired, and who did not see the outage cannot tell. So each look for expired
// leases leaves a mark. The next look that does not find it, gets no answer or
// comes late gives the owners of that partition a whole lease to renew first.
// What can be lost without a mark among it are the renewals since the last look,
// and those before it are young enough to last until their owners renew again.

// markLeases is how many leases a mark lives: it is looked for every third of
// one.
const markLeases = 4

// looks is what this process knows of its looks at each partition.
type looks struct {
	mu   sync.Mutex
	last [runregistry.Partitions]look
	// shaky is when a partition last was no longer known to be whole.
	shaky [runregistry.Partitions]time.Time
}

// look is one look at a partition. Where it left none, any mark may be found.
type look struct {
	mark string
	at   time.Time
}

// looked learns from a look that found a mark, and reports whether what else it
// found can be believed: the partition has been whole for a lease.
func (l *looks) looked(at int, now look, found string, failed bool, lease time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.last[at]
	if failed {
		now.mark = "" // it may have been left, or not
	}
	forgot := was.mark != "" && found != was.mark
	late := !was.at.IsZero() && now.at.Sub(was.at) > lease
	if failed || forgot || late {
		l.shaky[at] = time.Now()
	}
	l.last[at] = now
	return time.Since(l.shaky[at]) >= lease
}

// Expired implements [runregistry.Leaser]. It visits all partitions; what some
// servers of a Cluster do not answer is found by a later call.
func (s *Store) Expired(ctx context.Context, limit int) ([]runregistry.RunID, error) {
	if err := s.ready(ctx); err != nil {
		return nil, fmt.Errorf("looking for expired leases: %w", err)
	}
	by, lease := s.me()
	now := look{mark: newToken(), at: time.Now()}
	calls := make([]*params, runregistry.Partitions)
	for at := range calls {
		p := runregistry.Partition(at)
		calls[at] = call(expiredScript).
			key(s.keys.leases(p), s.keys.mark(p, by)).
			arg(limit, now.mark, (markLeases * lease).Milliseconds())
	}
	replies, errs := s.evalAll(ctx, s.clients.calls, calls)
	var ids []runregistry.RunID
	var failed error
	for at, r := range replies {
		if fullServer(errs[at]) { // dead owners are buried there, too
			r, errs[at] = s.evalRoomy(ctx, s.clients.calls, calls[at])
		}
		failed = cmp.Or(failed, errs[at])
		if !s.looks.looked(at, now, r.text(2), errs[at] != nil, lease) {
			continue
		}
		for i := 3; i < len(r); i++ {
			ids = append(ids, runregistry.RunID(r.text(i)))
		}
	}
	if failed != nil && len(ids) == 0 {
		return nil, fmt.Errorf("looking for expired leases: %w", failed)
	}
	return ids[:min(len(ids), limit)], nil
}
