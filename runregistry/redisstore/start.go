package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// start claims everything for a new run, or nothing.
func (s *Store) start(ctx context.Context, a *runregistry.Admission, found *survey, losers []*entry) (*runregistry.Decision, error) {
	if err := s.reserve(ctx, a, losers); err != nil {
		return nil, err
	}
	d, err := s.begin(ctx, a, found, losers)
	if err != nil && !errors.Is(err, runregistry.ErrUnavailable) { // otherwise it may have begun
		s.withdraw(ctx, a)
	}
	return d, err
}

func (s *Store) begin(ctx context.Context, a *runregistry.Admission, found *survey, losers []*entry) (*runregistry.Decision, error) {
	now := s.clock.now()
	n := newEntry(a, found, now)
	_, w, readers, stamp := s.tails.join(a.Run, true)
	watch := runregistry.NewWatch(w.c, func() { s.unwatch(a.Run, w) })
	p, err := s.startCall(a, found, n, readers, stamp)
	var beaten []*entry
	if err == nil {
		beaten, err = s.addLosers(p, a, losers, now)
	}
	if err == nil {
		err = s.claim(ctx, a, p)
	}
	if err != nil {
		watch.Close()
		return nil, err
	}
	s.tails.owned(n, n.rec.Epoch)
	if n.rec.Lined {
		s.stand(ctx, a.Run)
	}
	d := &runregistry.Decision{
		Record: n.copied(), Lease: runregistry.Lease{Run: a.Run, Epoch: n.rec.Epoch}, Watch: watch,
	}
	for _, e := range beaten {
		s.superseded(e)
		d.Superseded = e.rec.ID
	}
	return d, nil
}

// newEntry is the run that an admission asks for.
func newEntry(a *runregistry.Admission, found *survey, now time.Time) *entry {
	n := &entry{rec: *a.NewRecord(now), token: newToken(), turns: "1"}
	if found.last != nil {
		n.rec.Follow(found.last.rec.Attempt, found.last.rec.ID)
	}
	n.rec.Lined = found.lined
	n.claims = claims{key: a.Key, limits: a.Limits, holding: true}
	if a.Key.IsZero() {
		n.claims.echo = a.Implicit
	}
	if a.Conversation != "" {
		n.claims.dialogue = found.dialogue
		if found.dialogue == "" {
			n.claims.dialogue = newDialogue(a.Run)
		}
	}
	return n
}

// echoMemory bounds how long an equal request is remembered for those whose
// window is longer than the one of the run.
const echoMemory = time.Hour

func (s *Store) startCall(a *runregistry.Admission, found *survey, n *entry, readers int, stamp uint64) (*params, error) {
	text, err := n.encode()
	if err != nil {
		return nil, err
	}
	at := a.Run.Partition()
	p := call(admitScript)
	s.claimed(p, n)
	p.key(s.keys.guests(at, a.Subject))
	echoing, talking := !n.claims.echo.IsZero(), a.Conversation != ""
	p.arg(found.claim, flag(echoing), max(a.ImplicitWindow, min(echoMemory, a.Retention.Record)).Milliseconds())
	if echoing {
		p.key(s.keys.echoes(at, a.Subject, a.Route, n.claims.echo))
	}
	if talking {
		p.key(s.keys.name(at, a.Scope, a.Conversation))
	}
	held := make([]string, len(found.holders))
	for i, id := range found.holders {
		held[i] = string(id)
	}
	p.arg(flag(talking), found.dialogue, flag(a.Busy != runregistry.BusyAllow), strings.Join(held, ","))
	by, lease := s.me()
	return p.arg(string(by), readers, stamp, safetyMillis, lease.Milliseconds(), a.ActiveLimit,
		a.Limits.Frames, a.Limits.Bytes, n.token, int(n.rec.State), n.rec.Revision, text, s.verb()), nil
}

// addLosers adds the runs that give the conversation away, and returns them as
// they will be.
func (s *Store) addLosers(p *params, a *runregistry.Admission, losers []*entry, now time.Time) ([]*entry, error) {
	p.arg(len(losers))
	beaten := make([]*entry, len(losers))
	for i, e := range losers {
		n := e.next()
		n.rec.Stop(runregistry.ReasonSuperseded, now)
		n.claims.holding = false
		s.claimed(p, n)
		if err := p.change(e, n); err != nil {
			return nil, err
		}
		owner := s.keys.owner(e.owner)
		p.arg(flag(a.Busy == runregistry.BusyAuto), flag(e.rec.Subject == a.Subject), s.keys.channel(e.rec.ID), owner)
		p.arg(flag(n.rec.State.Terminal()))
		if n.rec.State.Terminal() {
			p.ending(n, n.rec.EndedAt, (&runregistry.Settlement{}).FreesKey(&n.rec))
		}
		beaten[i] = n
	}
	return beaten, nil
}

// claim commits a start.
func (s *Store) claim(ctx context.Context, a *runregistry.Admission, p *params) error {
	r, err := s.durable(ctx, p, func(c redis.Scripter) (reply, error) { return s.eval(ctx, c, p) })
	switch {
	case err != nil:
		return err
	case r.word() == "ok":
		return nil
	case r.word() == "limit":
		return s.atLimit(ctx, a, r)
	}
	return errStale // or it exists, since the reply to the first was lost
}

// superseded tells the readers here.
func (s *Store) superseded(e *entry) {
	if e.rec.State.Terminal() {
		s.tails.ended(e)
		return
	}
	s.tails.changed(e)
}
