package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Restore implements [runregistry.Leaser]. The claims are those that this
// instance knows from the admission or the takeover of the run, or that its end
// told.
func (s *Store) Restore(ctx context.Context, l runregistry.Lease, r *runregistry.Record, window *runregistry.Batch) error {
	if err := s.restore(ctx, l, r, window); err != nil {
		if errors.Is(err, runregistry.ErrTaken) {
			s.tails.disown(l)
		}
		return fmt.Errorf("restoring %s: %w", l.Run, err)
	}
	return nil
}

func (s *Store) restore(ctx context.Context, l runregistry.Lease, r *runregistry.Record, window *runregistry.Batch) error {
	if err := s.usable(ctx, l.Run); err != nil {
		return err
	}
	n := &entry{rec: *r, token: newToken(), turns: "1"}
	ended := r.State.Terminal()
	switch left, known := r.Claims.(claims); {
	case !ended:
		n.claims = s.tails.claims(l, r)
	case !known || !s.clock.now().Before(r.ExpiresAt):
		return runregistry.ErrNoRun
	default:
		n.claims = left
	}
	n.rec.LastSeq = window.After + runregistry.Seq(len(window.Frames))
	n.rec.FirstSeq = window.After + 1
	if len(window.Frames) == 0 {
		n.rec.FirstSeq = 0
	}
	n.rec.Epoch = l.Epoch
	n.claims.holding = n.claims.holding && r.Reason != runregistry.ReasonSuperseded
	n.rec.Revision++
	own := copyBatch(window)
	p, err := s.restoreCall(l, n, own)
	if err != nil {
		return err
	}
	said, err := s.eval(ctx, s.clients.calls, p)
	if err != nil {
		return err
	}
	switch err := outcome(said.word()); {
	case err != nil:
		return err
	case ended: // it is nobody's
		s.tails.doubt(l.Run)
	case said.word() == "there":
		return s.rejoin(ctx, l)
	default:
		s.tails.restored(n, own, s.clock.now())
	}
	return nil
}

// rejoin goes on with a run that is not lost: the reply to an earlier Restore
// was.
func (s *Store) rejoin(ctx context.Context, l runregistry.Lease) error {
	e, err := s.load(ctx, l.Run)
	if err == nil {
		err = writable(e, l.Epoch)
	}
	if err == nil {
		s.tails.owned(e, l.Epoch)
	}
	return err
}

func (s *Store) restoreCall(l runregistry.Lease, n *entry, b *batch) (*params, error) {
	text, err := n.encode()
	if err != nil {
		return nil, err
	}
	r := &n.rec
	p := call(restoreScript)
	s.claimed(p, n)
	p.key(s.keys.deleted(l.Run))
	talking, named := n.claims.dialogue != "", r.UpstreamID != ""
	if talking {
		p.key(s.keys.name(l.Run.Partition(), r.Scope, r.Conversation))
	}
	if named {
		p.key(s.keys.upstream(l.Run.Partition(), r.Scope, r.UpstreamID))
	}
	by, lease := s.me()
	p.arg(flag(talking), n.claims.dialogue, flag(named), flag(n.claims.holding), epochText(l.Epoch), string(by),
		safetyMillis, lease.Milliseconds(), n.claims.limits.Frames, n.claims.limits.Bytes,
		n.token, int(r.State), r.Revision, text, flag(len(r.Snapshot) > 0), []byte(r.Snapshot),
		r.Bytes, millis(r.CreatedAt), optional(r.FirstFrameAt), optional(r.ActivityAt), flag(r.State.Terminal()))
	if r.State.Terminal() {
		p.ending(n, s.clock.now(), false)
	}
	d := &r.Delivery
	p.arg(d.Pending, d.Open, flag(d.Headers), flag(d.BrokenEarly), flag(d.BrokenLate), s.verb(), s.keys.channel(l.Run))
	p.arg(uint64(b.after), len(b.frames))
	for _, f := range b.frames {
		p.arg(f)
	}
	return p, nil
}

func optional(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// claims are those of a run of this instance, as far as it knows them.
func (ts *tails) claims(l runregistry.Lease, r *runregistry.Record) claims {
	c := claims{holding: true}
	if t := ts.get(l.Run); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.epoch == l.Epoch {
			c = t.held
		}
	}
	if r.Conversation != "" && c.dialogue == "" { // as the Bind did whose answer was lost
		c.dialogue = newDialogue(r.ID)
	}
	return c
}

// restored notes that the log begins anew with an owner's window.
func (ts *tails) restored(n *entry, b *batch, now time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.openLocked(n.rec.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch, t.known = n.rec.Epoch, false
	t.keepLocked(n)
	t.window.drop()
	frames := make([]runregistry.Frame, len(b.frames))
	for i, data := range b.frames {
		frames[i] = runregistry.Frame{Seq: b.after + 1 + runregistry.Seq(i), At: now, Data: data}
	}
	t.learnLocked(standingOf(n), t.at)
	t.window.add(frames)
	t.wakeLocked()
}
