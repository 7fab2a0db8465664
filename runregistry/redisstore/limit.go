package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A subject's limit is of all its runs, but those in its tenant's scope are in
// another partition than its own, and one script cannot look at both. So its
// own partition, its home, decides for all: a run of the tenant's scope is
// counted there as a guest before it is started. When the limit is reached the
// guests are looked at, and those that no longer count are forgotten; hence
// there are never more of them than the limit allows, and no end of a run has
// to tell.

// home is the partition in which the runs of a subject are counted.
func home(sub runregistry.Subject) runregistry.Partition {
	return partition(runregistry.SubjectScope(sub))
}

// reserve counts a new run in its subject's limit if its partition cannot do
// that.
func (s *Store) reserve(ctx context.Context, a *runregistry.Admission, losers []*entry) error {
	at := home(a.Subject)
	if a.ActiveLimit == 0 || at == a.Run.Partition() {
		return nil
	}
	p := call(reserveScript).key(s.keys.active(at, a.Subject), s.keys.guests(at, a.Subject)).
		arg(string(a.Run), a.ActiveLimit, len(losers))
	for _, e := range losers {
		p.arg(string(e.rec.ID))
	}
	r, err := s.eval(ctx, s.clients.calls, p.arg(safetyMillis))
	if err == nil && r.word() == "limit" {
		err = s.atLimit(ctx, a, r)
	}
	return err
}

// withdraw takes a reservation back. One that stays is forgotten when it is in
// the way.
func (s *Store) withdraw(ctx context.Context, a *runregistry.Admission) {
	if at := home(a.Subject); a.ActiveLimit > 0 && at != a.Run.Partition() {
		s.forget(ctx, at, a.Subject, []runregistry.RunID{a.Run})
	}
}

func (s *Store) forget(ctx context.Context, at runregistry.Partition, sub runregistry.Subject, guests []runregistry.RunID) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	members := make([]any, len(guests))
	for i, id := range guests {
		members[i] = string(id)
	}
	_ = s.clients.calls.ZRem(ctx, s.keys.guests(at, sub), members...).Err()
}

const (
	// starting is how long a start may take from its reservation on.
	starting = 5 * time.Second
	// undecided is how long a start waits before it looks again at those that
	// are about to take the last places.
	undecided = 10 * time.Millisecond
)

// atLimit answers a start for which there is no place, as the reply of a script
// says: [errStale] if there may be one by now.
func (s *Store) atLimit(ctx context.Context, a *runregistry.Admission, r reply) error {
	var guests []runregistry.RunID
	var since []time.Time
	for i := 2; i+1 < len(r); i += 2 {
		guests, since = append(guests, runregistry.RunID(r.text(i))), append(since, time.UnixMicro(r.number(i+1)))
	}
	standing, err := s.standings(ctx, a.Subject, guests)
	if err != nil {
		return err
	}
	var left []runregistry.RunID
	waiting, young := false, s.clock.now().Add(-starting)
	for i, st := range standing {
		switch {
		case st == guestLeft, st == guestUnknown && since[i].Before(young):
			left = append(left, guests[i])
		case st == guestUnknown:
			waiting = true
		}
	}
	switch {
	case len(left) > 0:
		s.forget(ctx, home(a.Subject), a.Subject, left)
		return errStale
	case waiting:
		return s.pause(ctx)
	}
	return &runregistry.LimitError{Limit: "active_runs_per_subject", Max: a.ActiveLimit}
}

// pause waits for others to finish what they have begun.
func (s *Store) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	case <-s.done:
		return unavailable(ctx, errClosed)
	case <-time.After(undecided):
		return errStale
	}
}

// guestStanding is what became of a guest.
type guestStanding int

const (
	guestCounts  guestStanding = iota // it is active
	guestLeft                         // it ended, or was superseded
	guestUnknown                      // it is not there, perhaps not yet
)

// standings looks a subject's guests up, each in its own partition.
func (s *Store) standings(ctx context.Context, sub runregistry.Subject, guests []runregistry.RunID) ([]guestStanding, error) {
	if len(guests) == 0 {
		return nil, nil
	}
	limit, cancel := s.deadline(ctx)
	defer cancel()
	pipe := s.clients.calls.Pipeline()
	exists, active := make([]*redis.IntCmd, len(guests)), make([]*redis.FloatCmd, len(guests))
	for i, id := range guests {
		exists[i] = pipe.Exists(limit, s.keys.run(id))
		active[i] = pipe.ZScore(limit, s.keys.active(id.Partition(), sub), string(id))
	}
	if _, err := pipe.Exec(limit); err != nil && !errors.Is(err, redis.Nil) {
		return nil, unavailable(ctx, err)
	}
	found := make([]guestStanding, len(guests))
	for i := range guests {
		switch {
		case active[i].Err() == nil:
			found[i] = guestCounts
		case exists[i].Val() > 0:
			found[i] = guestLeft
		default:
			found[i] = guestUnknown
		}
	}
	return found, nil
}
