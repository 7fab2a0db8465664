package modeltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// fact is what the model knows about one run.
type fact struct {
	rec      *runregistry.Record // as it was seen last; nil until then
	stopped  atomic.Bool         // somebody may have stopped it
	deleting atomic.Bool         // somebody may have deleted it
}

func (w *world) fact(id runregistry.RunID) *fact {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.facts[id]
	if f == nil {
		f = &fact{}
		w.facts[id] = f
	}
	return f
}

// expired reports whether the record may be gone.
func (f *fact) expired() bool {
	return f.deleting.Load() || f.rec != nil && f.rec.State.Terminal() && !time.Now().Before(f.rec.ExpiresAt)
}

// load asks the store itself.
func (w *world) load(id runregistry.RunID) (*runregistry.Record, error) {
	return w.observer.Load(context.Background(), id)
}

// dispatched checks that a call of the backend is the only one of its run and
// of its key, that the run has not ended, and that whoever calls knows that its
// intent was stored.
func (w *world) dispatched(by *instance, id runregistry.RunID, key string) *call {
	rec, err := w.load(id)
	if err != nil || rec.State.Terminal() || rec.State == runregistry.Queued {
		w.violated("%s was dispatched in state %v (%v)", id, rec, err)
	}
	if !by.store.may(id) {
		w.violated("%s was dispatched without its intent", id)
	}
	c := &call{by: by, orders: make(chan kind, manyOrders)}
	w.mu.Lock()
	twice := w.calls[id] != nil
	w.calls[id] = c
	before := w.keys[key]
	if key != "" {
		w.keys[key] = id
	}
	old := w.facts[before]
	w.mu.Unlock()
	if twice {
		w.violated("%s was dispatched twice", id)
	}
	if before != "" && key != "" && (old == nil || old.rec == nil || !old.rec.State.Terminal() || time.Now().Before(old.rec.KeyExpiresAt())) {
		w.violated("%s and %s were dispatched under key %s", before, id, key)
	}
	return c
}

// observe looks at all runs.
func (w *world) observe() {
	seen := make(map[runregistry.RunID]bool)
	for _, name := range subjects {
		busy := make(map[runregistry.ConversationID]runregistry.RunID)
		for _, rec := range w.list(name) {
			seen[rec.ID] = true
			w.note(rec)
			if !rec.State.Active() || rec.Reason == runregistry.ReasonSuperseded {
				continue
			}
			if other := busy[rec.Conversation]; other != "" {
				w.violated("conversation %s of %s is held by %s and %s", rec.Conversation, name, other, rec.ID)
			}
			busy[rec.Conversation] = rec.ID
		}
	}
	for id, f := range w.known() {
		if f.rec != nil && !f.expired() && !seen[id] {
			w.violated("%s is gone before its time", id)
		}
	}
}

// list returns the records of a subject.
func (w *world) list(name string) []*runregistry.Record {
	l, err := w.observer.List(context.Background(), runregistry.ListQuery{
		Subject: runregistry.Subject{Realm: "gateway.test", Issuer: "header", Sub: name}, Limit: 200,
	})
	if err != nil {
		w.violated("listing the runs of %s: %v", name, err)
	}
	return l.Records
}

func (w *world) known() map[runregistry.RunID]*fact {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.facts)
}

// note compares a record with what was known of it: nothing goes back, and an
// end is for ever.
func (w *world) note(rec *runregistry.Record) {
	f := w.fact(rec.ID)
	w.mu.Lock()
	was, c := f.rec, w.calls[rec.ID]
	f.rec = rec
	w.mu.Unlock()
	if was != nil {
		if was.State.Terminal() && (rec.State != was.State || rec.Reason != was.Reason || rec.FinalSeq != was.FinalSeq || rec.Effect != was.Effect) {
			w.violated("%s left %s (%s, final %d) for %s (%s, final %d)", rec.ID, was.State, was.Reason, was.FinalSeq, rec.State, rec.Reason, rec.FinalSeq)
		}
		if rec.Epoch < was.Epoch || rec.LastSeq < was.LastSeq || rec.Effect < was.Effect && !rec.State.Terminal() {
			w.violated("%s went back from epoch %d, frame %d, effect %s to %d, %d, %s", rec.ID, was.Epoch, was.LastSeq, was.Effect, rec.Epoch, rec.LastSeq, rec.Effect)
		}
	}
	if rec.Epoch > 1 && (rec.State == runregistry.Completed || was != nil && was.Epoch == rec.Epoch && rec.LastSeq > was.LastSeq) {
		w.violated("%s was written by its first owner after it was taken over: %s, %d frames", rec.ID, rec.State, rec.LastSeq)
	}
	if sent := c.count(); rec.LastSeq > sent {
		w.violated("%s has %d frames, and upstream sent %d", rec.ID, rec.LastSeq, sent)
	}
	if rec.State.Terminal() && (was == nil || !was.State.Terminal()) {
		w.meet(rec.State.String())
		w.noteEnd(f, rec, c)
	}
}

// count is how many frames a call sent; none if there was none.
func (c *call) count() runregistry.Seq {
	if c == nil {
		return 0
	}
	return runregistry.Seq(c.sent.Load())
}

// noteEnd checks that a run had a cause to end as it did.
func (w *world) noteEnd(f *fact, rec *runregistry.Record, c *call) {
	troubled := c == nil || c.by.troubled.Load() // an undispatched run: by whomever
	allowed := false
	switch rec.State {
	case runregistry.Completed:
		allowed = c != nil && c.clean.Load() && rec.LastSeq == c.count()
	case runregistry.Failed:
		allowed = troubled || c.broken.Load()
	case runregistry.Cancelled:
		allowed = f.stopped.Load() || rec.Reason == runregistry.ReasonSuperseded
	case runregistry.Uncertain:
		allowed = c != nil && troubled || c == nil && !rec.DispatchedAt.IsZero()
	default:
	}
	if !allowed || rec.FinalSeq != rec.LastSeq+1 {
		w.violated("%s ended as %s (%s) with %d frames, final %d, without a cause: sent %d", rec.ID, rec.State, rec.Reason, rec.LastSeq, rec.FinalSeq, c.count())
	}
}

// mustHold checks that the store has what is about to be shown.
func (w *world) mustHold(id runregistry.RunID, seq runregistry.Seq) {
	if rec, err := w.load(id); err == nil && rec.LastSeq < seq {
		w.violated("%s: frame %d was shown, and %d are stored", id, seq, rec.LastSeq)
	}
}

// mustBeGone checks that a run may be answered as unknown.
func (w *world) mustBeGone(id runregistry.RunID) {
	if rec, err := w.load(id); err == nil && !w.fact(id).deleting.Load() {
		w.violated("%s was said to be unknown, and is %s", id, rec.State)
	}
}

// told checks what a viewer was told about the end of its run.
func (w *world) told(id runregistry.RunID, state string, seq runregistry.Seq) {
	if rec, err := w.load(id); err == nil && (rec.State.String() != state || rec.FinalSeq != seq) {
		w.violated("%s: a viewer was told that it ended as %s at %d, and it is %s at %d", id, state, seq, rec.State, rec.FinalSeq)
	}
}

// toldExpired checks that frames which a viewer did not get are gone in time.
func (w *world) toldExpired(v *viewer, reason string) {
	rec, err := w.load(v.run)
	if err == nil && (reason != "retention" || rec.FramesExpireAt.IsZero() || time.Now().Before(rec.FramesExpireAt)) {
		w.violated("%s of %s was told that frames are gone: %s", v.name, v.run, reason)
	}
}

// started checks the answer to a start.
func (w *world) started(on *instance, c *connection, r *startRequest, whole bool) {
	id := runregistry.RunID(c.header.Get("X-Run-Id"))
	rec, err := w.load(id)
	if id != "" && err == nil && rec.Subject.Sub != r.subject {
		w.violated("%s got %s, which belongs to %s", r.subject, id, rec.Subject.Sub)
	}
	w.meet(fmt.Sprintf("start %d", c.status))
	if c.header.Get("Idempotent-Replayed") != "" {
		w.meet("replayed")
	}
	switch said := code(c.rest); {
	case c.status == 200:
		if whole && err == nil && (rec.State != runregistry.Completed || c.viewer.seen() != rec.LastSeq) {
			w.violated("the answer with %s looked whole after %d frames, and the run is %s with %d", id, c.viewer.seen(), rec.State, rec.LastSeq)
		}
	case said == "run_in_flight":
		w.mustBeBusy(r)
	case said == "run_deleted" && r.key != "":
		if w.deletions() == 0 {
			w.violated("key %s is that of a deleted run, and none was deleted", r.key)
		}
	case said == "stream_expired" && r.key != "":
	case id != "" && err == nil && rec.Response == nil && rec.State.Terminal() && rec.State != runregistry.Completed:
	default:
		w.refused(on, "start", c.status, c.rest)
	}
}

// refused checks that a refusal has a cause.
func (w *world) refused(on *instance, what string, status int, body []byte) {
	if !on.troubled.Load() || status != 503 && status != 0 {
		w.violated("%s got %d %s", what, status, body)
	}
}

func (w *world) deletions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deletes
}

// mustBeBusy checks that a run of the conversation was active while the request
// was.
func (w *world) mustBeBusy(r *startRequest) {
	for _, rec := range w.list(r.subject) {
		if string(rec.Conversation) == r.conversation && (rec.State.Active() || !rec.EndedAt.Before(r.began.Truncate(time.Millisecond))) {
			return
		}
	}
	if w.deletions() == r.deletes {
		w.violated("conversation %s of %s was said to be busy, and has no active run", r.conversation, r.subject)
	}
}

// joined checks how the answer to a viewer that came back ended.
func (w *world) joined(on *instance, c *connection, id runregistry.RunID, ended bool) {
	switch {
	case c.status == 200:
	case c.status == 204 && ended:
	case c.status == 404:
		w.mustBeGone(id)
	default:
		w.refused(on, "viewer of "+string(id), c.status, c.rest)
	}
}

// seen is the newest frame that the viewer has.
func (v *viewer) seen() runregistry.Seq {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// allEnded checks that every run has its terminal state.
func (w *world) allEnded() {
	for _, name := range subjects {
		for _, rec := range w.list(name) {
			if !rec.State.Terminal() {
				w.violated("%s is still %s", rec.ID, rec.State)
			}
		}
	}
}

// sawAll checks that a viewer got everything that there was to get.
func (w *world) sawAll(v *viewer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.run == "" || v.gone {
		return
	}
	rec, err := w.load(v.run)
	switch {
	case errors.Is(err, runregistry.ErrNoRun):
	case err != nil:
		w.violated("loading %s: %v", v.run, err)
	case v.last != rec.LastSeq || !v.ended:
		w.violated("%s of %s ended at frame %d of %d, told of the end: %t", v.name, v.run, v.last, rec.LastSeq, v.ended)
	}
}

// staleConnections is how many connections a client may have that were cut
// before: without a socket it learns of each only by using it.
const staleConnections = 10

// conversationsAreFree checks that every conversation takes another run.
func (w *world) conversationsAreFree() {
	next := len(w.slots) + manyOrders
	for who := range subjects[:2] {
		for conv := 1; conv <= 2; conv++ {
			for range staleConnections {
				w.start(w.now[conv%instances], step{slot: next, who: who, conv: conv})
				time.Sleep(time.Second) // in the bubble: a subscription that broke comes back
				if w.slots[next].run() != "" {
					break
				}
			}
			if w.slots[next].run() == "" {
				w.violated("conversation %d of %s takes no run although all have ended", conv, subjects[who])
			}
			w.order(next, doEnd)
			next++
		}
	}
	synctest.Wait()
	w.observe()
}

// summary puts problems on lines of their own.
func summary(problems []string) string { return "  " + strings.Join(problems, "\n  ") }
