package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Admit implements [runregistry.Admitter]. It reads what the decision depends
// on, decides, and commits if all of that still stands.
func (s *Store) Admit(ctx context.Context, a *runregistry.Admission) (*runregistry.Decision, error) {
	d, err := s.admit(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("admitting run: %w", err)
	}
	return d, nil
}

func (s *Store) admit(ctx context.Context, a *runregistry.Admission) (*runregistry.Decision, error) {
	if err := s.usable(ctx, a.Run); err != nil {
		return nil, err
	}
	for range attempts {
		found, err := s.survey(ctx, a)
		if err != nil {
			return nil, err
		}
		d, err := s.decide(ctx, a, found)
		if !errors.Is(err, errStale) {
			return d, err
		}
	}
	return nil, unavailable(ctx, errContest)
}

// errStale means that what a decision depends on has changed.
var errStale = errors.New("others were faster")

// survey is what an admission finds.
type survey struct {
	self  *entry // the run itself: it was admitted before
	claim string // value of the key
	keyed *entry // the run that has the key
	last  *entry // the attempt that the new run follows
	// dialogue is the conversation of that name, or empty; holders are its
	// active runs in the order of their admission.
	dialogue string
	holders  []runregistry.RunID
	held     []*entry
	readers  []int // of each holder, on all instances
	lined    bool  // the new run waits for them
}

func (s *Store) survey(ctx context.Context, a *runregistry.Admission) (*survey, error) {
	at, found := a.Run.Partition(), &survey{}
	limit, cancel := s.deadline(ctx)
	defer cancel()
	pipe := s.clients.calls.Pipeline()
	self := pipe.HGetAll(limit, s.keys.run(a.Run))
	var claim *redis.StringCmd
	var name *redis.ZSliceCmd
	if !a.Key.IsZero() {
		claim = pipe.Get(limit, s.keys.claim(at, a.Subject, a.Route, a.Key))
	}
	if a.Conversation != "" {
		name = pipe.ZRevRangeWithScores(limit, s.keys.name(at, a.Scope, a.Conversation), 0, 0)
	}
	if _, err := pipe.Exec(limit); err != nil && !errors.Is(err, redis.Nil) {
		return nil, unavailable(ctx, err)
	}
	entries, err := s.parseAll([]runregistry.RunID{a.Run}, []*redis.MapStringStringCmd{self})
	if err != nil {
		return nil, err
	}
	found.self = entries[0]
	if claim != nil {
		found.claim = claim.Val()
	}
	if name != nil {
		found.dialogue = s.dialogueIn(name.Val())
	}
	if found.self != nil {
		return found, nil
	}
	return found, s.surveyRuns(ctx, at, found)
}

// surveyRuns loads the runs that the claims name.
func (s *Store) surveyRuns(ctx context.Context, at runregistry.Partition, found *survey) error {
	if err := known(runregistry.RunID(found.claim)); err == nil {
		entries, err := s.loadAll(ctx, []runregistry.RunID{runregistry.RunID(found.claim)})
		if err != nil {
			return err
		}
		found.keyed = entries[0]
	}
	if found.dialogue == "" {
		return nil
	}
	limit, cancel := s.deadline(ctx)
	defer cancel()
	ids, err := s.clients.calls.ZRange(limit, s.keys.holders(at, found.dialogue), 0, -1).Result()
	if err != nil {
		return unavailable(ctx, err)
	}
	found.holders = runIDs(ids)
	if found.held, err = s.loadAll(ctx, found.holders); err != nil {
		return err
	}
	found.readers = make([]int, len(ids))
	for i, id := range found.holders {
		if found.readers[i], err = s.Readers(ctx, id); err != nil && !errors.Is(err, runregistry.ErrNoRun) {
			return err
		}
	}
	return nil
}

// decide answers by what was found, in the order that the contract names.
func (s *Store) decide(ctx context.Context, a *runregistry.Admission, found *survey) (*runregistry.Decision, error) {
	switch {
	case found.self != nil: // the reply to the first was lost
		return s.again(ctx, found.self)
	case !a.Key.IsZero():
		d, last, err := s.matchKey(ctx, a, found)
		if d != nil || err != nil {
			return d, err
		}
		found.last = last
	case !a.Implicit.IsZero():
		if d, err := s.matchImplicit(ctx, a, found); d != nil || err != nil {
			return d, err
		}
	}
	losers, lined, err := s.contest(a, found)
	if err != nil {
		return nil, s.confirm(ctx, a, found, err)
	}
	found.lined = lined
	return s.start(ctx, a, found, losers)
}

// confirm makes sure that a conversation is not busy with the very run that has
// the key by now: the key was read first.
func (s *Store) confirm(ctx context.Context, a *runregistry.Admission, found *survey, refusal error) error {
	if a.Key.IsZero() {
		return refusal
	}
	claim, err := s.get(ctx, s.keys.claim(a.Run.Partition(), a.Subject, a.Route, a.Key))
	switch {
	case err != nil:
		return err
	case claim != found.claim:
		return errStale
	}
	return refusal
}

// again answers an admission that was sent twice. A run that another instance
// took over meanwhile is no longer the caller's to dispatch.
func (s *Store) again(ctx context.Context, e *entry) (*runregistry.Decision, error) {
	if e.rec.Epoch > 1 {
		return nil, unavailable(ctx, errTakenOver)
	}
	s.tails.owned(e, e.rec.Epoch)
	w, err := s.watch(ctx, e.rec.ID, true)
	if err != nil {
		return nil, err
	}
	return &runregistry.Decision{
		Record: e.copied(), Lease: runregistry.Lease{Run: e.rec.ID, Epoch: e.rec.Epoch}, Watch: w,
	}, nil
}

// matchKey finds the attempt that the request repeats, or the last one, which it
// is to follow.
func (s *Store) matchKey(ctx context.Context, a *runregistry.Admission, found *survey) (d *runregistry.Decision, last *entry, err error) {
	e := found.keyed
	switch {
	case found.claim == reserved:
		return nil, nil, runregistry.ErrDeleted
	case e == nil, e.rec.State.Terminal() && !s.clock.now().Before(e.rec.KeyExpiresAt()):
		return nil, nil, nil
	case e.rec.Fingerprint != a.Fingerprint:
		return nil, nil, runregistry.ErrKeyReused
	case a.KeyConflict && e.rec.State.Active():
		return nil, nil, &runregistry.InProgressError{Run: e.rec.ID}
	}
	again, err := a.Retries(&e.rec)
	switch {
	case err != nil:
		return nil, nil, err
	case again:
		return nil, e, nil
	}
	d, err = s.attachAttempt(ctx, a, e)
	return d, nil, err
}

// attachAttempt attaches to the attempt that the admission asks for, the last
// one or one before it.
func (s *Store) attachAttempt(ctx context.Context, a *runregistry.Admission, last *entry) (*runregistry.Decision, error) {
	e := last
	for !a.Names(e.rec.Attempt, last.rec.Attempt) {
		if e.rec.Previous == "" {
			return nil, runregistry.ErrDeleted
		}
		before, err := s.loadAll(ctx, []runregistry.RunID{e.rec.Previous})
		switch {
		case err != nil:
			return nil, err
		case before[0] == nil:
			return nil, runregistry.ErrDeleted
		}
		e = before[0]
	}
	return s.attach(ctx, a, e, runregistry.MatchKey, "", "")
}

// reserved is the value of the key of a deleted run.
const reserved = "!"

// matchImplicit finds the equal request that keeps the conversation busy, else
// the newest broken delivery of an equal request.
func (s *Store) matchImplicit(ctx context.Context, a *runregistry.Admission, found *survey) (*runregistry.Decision, error) {
	if e := found.speaker(); e != nil {
		equal := e.rec.Subject == a.Subject && e.rec.Route == a.Route && e.claims.echo == a.Implicit
		if equal && a.Resumes(&e.rec) {
			return s.attach(ctx, a, e, runregistry.MatchConversation, e.token, "")
		}
	}
	e, err := s.broken(ctx, a)
	if err != nil || e == nil {
		return nil, err
	}
	return s.attach(ctx, a, e, runregistry.MatchDelivery, e.token, e.turns)
}

// echoPage is how many equal requests are looked at in one round trip.
const echoPage = 16

// broken finds the newest run whose delivery the admission may be a retry of.
func (s *Store) broken(ctx context.Context, a *runregistry.Admission) (*entry, error) {
	now := s.clock.now()
	for from := int64(0); ; from += echoPage {
		limit, cancel := s.deadline(ctx)
		ids, err := s.clients.calls.ZRevRange(limit, s.keys.echoes(a.Run.Partition(), a.Subject, a.Route, a.Implicit), from, from+echoPage-1).Result()
		cancel()
		if err != nil {
			return nil, unavailable(ctx, err)
		}
		entries, err := s.loadAll(ctx, runIDs(ids))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			switch {
			case e == nil:
			case a.Repeats(&e.rec, now):
				return e, nil
			case now.Sub(e.rec.CreatedAt) > a.ImplicitWindow:
				return nil, nil
			}
		}
		if len(ids) < echoPage {
			return nil, nil
		}
	}
}

// attach counts one more delivery and reader of a run, if its record and its
// deliveries are still those that the tokens name. The id that the admission
// would have used names the operation: sent again, it is counted once.
func (s *Store) attach(ctx context.Context, a *runregistry.Admission, e *entry, m runregistry.Match, token, turns string) (*runregistry.Decision, error) {
	id := e.rec.ID
	t, w, n, stamp := s.tails.join(id, true)
	watch := runregistry.NewWatch(w.c, func() { s.unwatch(id, w) })
	rec, err := s.attachTo(ctx, t, string(a.Run), n, stamp, token, turns)
	if err != nil {
		watch.Close()
		return nil, err
	}
	return &runregistry.Decision{Match: m, Record: rec, Watch: watch}, nil
}

func (s *Store) attachTo(ctx context.Context, t *tail, op string, n int, stamp uint64, token, turns string) (*runregistry.Record, error) {
	if err := s.follow(ctx, t); err != nil {
		return nil, err
	}
	by, lease := s.me()
	r, err := s.evalRoomy(ctx, s.clients.calls, call(attachScript).
		key(s.keys.run(t.id), s.keys.readers(t.id), s.keys.op(t.id.Partition(), op)).
		arg(token, turns, string(by), n, stamp, lease.Milliseconds()))
	switch {
	case err != nil:
		return nil, err
	case r.word() != "ok":
		return nil, errStale // expired since, or changed
	}
	f := make(fields, len(r)/2)
	for i := 2; i+1 < len(r); i += 2 {
		f[r.text(i)] = r.text(i + 1)
	}
	e, err := parseEntry(t.id, f, s.clock.now())
	switch {
	case e == nil && err != nil:
		return nil, unavailable(ctx, err)
	case e == nil || err != nil:
		return nil, errStale
	}
	return e.copied(), nil
}

// speaker is the run that the conversation is about, if it is active.
func (f *survey) speaker() *entry {
	if len(f.held) == 0 {
		return nil
	}
	return f.held[runregistry.Speaker(len(f.held), func(i int) bool { return f.held[i] == nil || f.held[i].rec.Lined })]
}

// contest returns the runs that must give the conversation away, or whether the
// new one waits for them, or why neither.
func (s *Store) contest(a *runregistry.Admission, found *survey) (losers []*entry, lined bool, err error) {
	if a.Busy == runregistry.BusyAllow {
		return nil, false, nil
	}
	holders := make([]runregistry.Holder, len(found.held))
	for i, e := range found.held {
		if e == nil {
			return nil, false, errStale // it holds the conversation and is not there: look again
		}
		holders[i] = runregistry.Holder{
			Busy: runregistry.BusyError{
				Run: e.rec.ID, Mine: e.rec.Subject == a.Subject, Readers: found.readers[i], Ending: e.rec.Ending,
			},
			Lined: e.rec.Lined,
		}
	}
	lined, err = a.Contest(holders)
	if err != nil || lined {
		return nil, lined, err
	}
	return found.held, false, nil
}
