package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// fixture is one test with its store. Its methods do what a gateway would do
// and fail the test when that does not work.
type fixture struct {
	*testing.T
	runregistry.Store
	ctx context.Context //nolint:containedctx // the test's own
}

func newFixture(t *testing.T, s runregistry.Store) *fixture {
	t.Helper()
	return &fixture{T: t, Store: s, ctx: t.Context()}
}

// Subjects of the tests.
var (
	alice = runregistry.Subject{Realm: "chat", Issuer: "session", Sub: "alice"}
	bob   = runregistry.Subject{Realm: "chat", Issuer: "session", Sub: "bob"}
)

// retention of the tests; all parts differ.
var retention = runregistry.Retention{Frames: 10 * time.Minute, Record: 24 * time.Hour, Key: 12 * time.Hour}

// detail changes a request.
type detail func(*runregistry.Admission)

// ask makes a request of alice's, in a conversation that the gateway made up.
func ask(details ...detail) *runregistry.Admission {
	a := &runregistry.Admission{
		Subject:      alice,
		Scope:        runregistry.SubjectScope(alice),
		Route:        "chat",
		Conversation: runregistry.NewConversationID(),
		Fingerprint:  digest("body"),
		Retention:    retention,
	}
	for _, d := range details {
		d(a)
	}
	a.Run = runregistry.NewRunID(runregistry.PartitionOf(string(a.Scope)))
	return a
}

func digest(text string) runregistry.Digest { return sha256.Sum256([]byte(text)) }

// in names the conversation.
func in(c runregistry.ConversationID) detail {
	return func(a *runregistry.Admission) { a.Conversation, a.Named = c, true }
}

// by is a request of another subject, with conversations of its own.
func by(s runregistry.Subject) detail {
	return func(a *runregistry.Admission) { a.Subject, a.Scope = s, runregistry.SubjectScope(s) }
}

// shared makes conversations those of the whole tenant.
func shared(a *runregistry.Admission) { a.Scope = runregistry.TenantScope(a.Subject) }

// body is what the request asks; body and key tell requests apart.
func body(text string) detail {
	return func(a *runregistry.Admission) { a.Fingerprint = digest(text) }
}

// keyed gives the request an idempotency key.
func keyed(key string) detail {
	return func(a *runregistry.Admission) { a.Key = digest(key) }
}

// echo lets the request repeat an equal one that has no key either.
func echo(text string) detail {
	return func(a *runregistry.Admission) { a.Implicit, a.ImplicitWindow = digest(text), time.Minute }
}

func busy(b runregistry.Busy) detail {
	return func(a *runregistry.Admission) { a.Busy = b }
}

// admit asks and wants an answer.
func (f *fixture) admit(details ...detail) *runregistry.Decision {
	f.Helper()
	d, err := f.Admit(f.ctx, ask(details...))
	if err != nil {
		f.Fatalf("admission failed: %v", err)
	}
	f.Cleanup(d.Watch.Close)
	return d
}

// refused asks and wants an error, which it returns.
func (f *fixture) refused(details ...detail) error {
	f.Helper()
	d, err := f.Admit(f.ctx, ask(details...))
	if err == nil {
		d.Watch.Close()
		f.Fatalf("got %s (match %d), want a refusal", d.Record.ID, d.Match)
	}
	return err
}

// start asks and wants a new run.
func (f *fixture) start(details ...detail) *runregistry.Decision {
	f.Helper()
	d := f.admit(details...)
	if d.Match != runregistry.MatchNone {
		f.Fatalf("got match %d of %s, want a new run", d.Match, d.Record.ID)
	}
	return d
}

// attached asks and wants an existing run.
func (f *fixture) attached(want runregistry.RunID, how runregistry.Match, details ...detail) *runregistry.Decision {
	f.Helper()
	d := f.admit(details...)
	if d.Record.ID != want || d.Match != how {
		f.Fatalf("got %s by match %d, want %s by match %d", d.Record.ID, d.Match, want, how)
	}
	return d
}

// running starts a run, dispatches it and leaves no reader behind.
func (f *fixture) running(details ...detail) runregistry.Lease {
	f.Helper()
	d := f.start(details...)
	d.Watch.Close()
	f.intend(d.Lease)
	return d.Lease
}

func (f *fixture) intend(l runregistry.Lease) {
	f.Helper()
	if _, err := f.Intend(f.ctx, l); err != nil {
		f.Fatalf("intent failed: %v", err)
	}
}

// add appends frames after a position.
func (f *fixture) add(l runregistry.Lease, after runregistry.Seq, frames ...string) runregistry.Appended {
	f.Helper()
	return f.send(l, &runregistry.Batch{After: after, Frames: raw(frames...)})
}

// advance appends progress alone.
func (f *fixture) advance(l runregistry.Lease, p runregistry.Progress) {
	f.Helper()
	f.send(l, &runregistry.Batch{After: f.load(l.Run).LastSeq, Progress: &p})
}

func (f *fixture) send(l runregistry.Lease, b *runregistry.Batch) runregistry.Appended {
	f.Helper()
	done, err := f.Append(f.ctx, l, b)
	if err != nil {
		f.Fatalf("append after %d failed: %v", b.After, err)
	}
	return done
}

func raw(frames ...string) [][]byte {
	out := make([][]byte, len(frames))
	for i, s := range frames {
		out[i] = []byte(s)
	}
	return out
}

// end settles a run.
func (f *fixture) end(l runregistry.Lease, s runregistry.Settlement) *runregistry.Record {
	f.Helper()
	rec, err := f.Settle(f.ctx, l, &s)
	if err != nil {
		f.Fatalf("settling as %s failed: %v", s.State, err)
	}
	return rec
}

func (f *fixture) complete(l runregistry.Lease) *runregistry.Record {
	f.Helper()
	return f.end(l, runregistry.Settlement{State: runregistry.Completed})
}

func (f *fixture) stop(id runregistry.RunID) *runregistry.Record {
	f.Helper()
	rec, err := f.Stop(f.ctx, id, "")
	if err != nil {
		f.Fatalf("stop failed: %v", err)
	}
	return rec
}

func (f *fixture) deliver(id runregistry.RunID, events ...runregistry.DeliveryEvent) {
	f.Helper()
	for _, e := range events {
		if err := f.Deliver(f.ctx, id, e); err != nil {
			f.Fatalf("counting delivery event %d failed: %v", e, err)
		}
	}
}

func (f *fixture) load(id runregistry.RunID) *runregistry.Record {
	f.Helper()
	rec, err := f.Load(f.ctx, id)
	if err != nil {
		f.Fatalf("loading failed: %v", err)
	}
	return rec
}

// page reads one page.
func (f *fixture) page(q runregistry.PageQuery) runregistry.Page {
	f.Helper()
	p, err := f.Read(f.ctx, q)
	if err != nil {
		f.Fatalf("reading after %d failed: %v", q.After, err)
	}
	return p
}

// frames reads all frames after a position and checks their numbers.
func (f *fixture) frames(id runregistry.RunID, after runregistry.Seq) []string {
	f.Helper()
	var got []string
	for {
		p := f.page(runregistry.PageQuery{Run: id, After: after})
		for _, fr := range p.Frames {
			if after++; fr.Seq != after {
				f.Fatalf("got frame %d, want %d", fr.Seq, after)
			}
			got = append(got, string(fr.Data))
		}
		if !p.More(after) {
			return got
		}
	}
}

// wantFrames compares the whole log with a list.
func (f *fixture) wantFrames(id runregistry.RunID, want ...string) {
	f.Helper()
	if got := f.frames(id, 0); !slices.Equal(got, want) {
		f.Errorf("got frames %q, want %q", got, want)
	}
}

// wantErr compares an error with the one to branch on.
func (f *fixture) wantErr(doing string, got, want error) {
	f.Helper()
	if !errors.Is(got, want) {
		f.Errorf("%s: got error %v, want %v", doing, got, want)
	}
}

// wantGone checks that a run cannot be found by its id in any way.
func (f *fixture) wantGone(id runregistry.RunID) {
	f.Helper()
	_, err := f.Load(f.ctx, id)
	f.wantErr("loading", err, runregistry.ErrNoRun)
	_, err = f.Read(f.ctx, runregistry.PageQuery{Run: id})
	f.wantErr("reading", err, runregistry.ErrNoRun)
	_, err = f.Watch(f.ctx, id, true)
	f.wantErr("watching", err, runregistry.ErrNoRun)
	_, err = f.Readers(f.ctx, id)
	f.wantErr("counting readers", err, runregistry.ErrNoRun)
}

// want compares two values.
func want[T comparable](f *fixture, what string, got, want T) {
	f.Helper()
	if got != want {
		f.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// patience is how long a hint may take in a healthy store.
const patience = 10 * time.Second

// awaken waits for a hint.
func (f *fixture) awaken(w *runregistry.Watch) {
	f.Helper()
	select {
	case <-w.C:
	case <-time.After(patience):
		f.Fatal("no hint came")
	}
}

// watch subscribes to a run, as a reader or not.
func (f *fixture) watch(id runregistry.RunID, reading bool) *runregistry.Watch {
	f.Helper()
	w, err := f.Watch(f.ctx, id, reading)
	if err != nil {
		f.Fatalf("watching failed: %v", err)
	}
	f.Cleanup(w.Close)
	return w
}
