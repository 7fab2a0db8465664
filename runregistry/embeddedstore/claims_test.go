package embeddedstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Whatever callers do in whatever order, the claims fit together, and in the
// end nothing is left of them.
func TestClaimsFitTogetherAfterAnyHistory(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomHistory(t, seed) })
		})
	}
}

func randomHistory(t *testing.T, seed uint64) {
	s := New(Options{})
	defer s.Close()
	h := &history{T: t, s: s, rng: rand.New(rand.NewPCG(seed, 7))}
	for range 600 {
		h.step()
		checkClaims(t, s)
	}
	for _, l := range h.leases {
		h.may(s.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Failed}))
	}
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	wantEmpty(t, s)
}

// history does random things to a store.
type history struct {
	*testing.T
	s      *Store
	rng    *rand.Rand
	leases []runregistry.Lease
}

// may accepts the refusals that a random caller has to expect.
func (h *history) may(_ any, err error) {
	h.Helper()
	expected := []error{
		nil, runregistry.ErrNoRun, runregistry.ErrSettled, runregistry.ErrTaken, runregistry.ErrRunActive,
		runregistry.ErrKeyReused, runregistry.ErrDeleted, runregistry.ErrInLine,
	}
	if slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		return
	}
	if _, ok := errors.AsType[*runregistry.TransitionError](err); ok {
		return
	}
	if _, ok := errors.AsType[*runregistry.AttemptError](err); ok {
		return
	}
	if _, ok := errors.AsType[*runregistry.UnsafeRetryError](err); ok {
		return
	}
	h.Errorf("got error %v", err)
}

// step does something, or lets time pass.
func (h *history) step() { h.do(h.rng.IntN(12)) }

// act does something while no time passes.
func (h *history) act() { h.do(h.rng.IntN(11)) }

func (h *history) do(what int) {
	ctx, l := h.Context(), runregistry.Lease{}
	if len(h.leases) > 0 {
		l = h.leases[h.rng.IntN(len(h.leases))]
	}
	switch what {
	case 0, 1, 2:
		h.admit()
	case 3:
		h.may(h.s.Intend(ctx, l))
	case 4, 5:
		h.append(l)
	case 6:
		h.may(nil, h.s.Bind(ctx, l, h.conversation()))
	case 7, 8:
		end := &runregistry.Settlement{State: runregistry.Failed, NoEffect: h.coin(), ReleaseKey: h.coin()}
		h.may(h.s.Settle(ctx, l, end))
	case 9:
		h.may(h.s.Stop(ctx, l.Run, ""))
	case 10:
		h.may(nil, h.s.Delete(ctx, l.Run))
	case 11:
		time.Sleep(time.Duration(h.rng.IntN(300)) * time.Second)
	}
}

// append stores a few frames, what came with them, or both.
func (h *history) append(l runregistry.Lease) {
	var b runregistry.Batch
	if rec, err := h.s.Load(h.Context(), l.Run); err == nil {
		b.After = rec.LastSeq
	}
	for range h.rng.IntN(4) {
		b.Frames = append(b.Frames, []byte(strings.Repeat("f", h.rng.IntN(900))))
	}
	if h.coin() {
		b.Progress = &runregistry.Progress{UpstreamID: fmt.Sprint("up", h.rng.IntN(20)), Ending: h.rng.IntN(9) == 0}
	}
	if b.Progress != nil && h.coin() {
		b.Progress.Snapshot, b.Progress.SnapshotSeq = fmt.Append(nil, h.rng.Int()), b.After
	}
	h.may(h.s.Append(h.Context(), l, &b))
}

func (h *history) coin() bool { return h.rng.IntN(2) == 0 }

func (h *history) conversation() runregistry.ConversationID {
	return runregistry.ConversationID(fmt.Sprint("c", h.rng.IntN(15)))
}

func (h *history) admit() {
	a := ask(fmt.Sprint("k", h.rng.IntN(30)))
	a.Conversation, a.Named = h.conversation(), true
	a.Subject.Sub = fmt.Sprint("s", h.rng.IntN(2))
	a.Scope, a.MayReplace = runregistry.TenantScope(a.Subject), h.coin()
	a.Busy = runregistry.Busy(h.rng.IntN(5))
	a.Limits = runregistry.LogLimits{Bytes: int64(h.rng.IntN(5)) * 1000}
	if h.coin() {
		a.Key, a.Implicit, a.ImplicitWindow = runregistry.Digest{}, a.Key, time.Minute
	}
	a.Attempt, a.Confirmed = h.rng.IntN(4), h.coin()
	d, err := h.s.Admit(h.Context(), a)
	if _, busy := errors.AsType[*runregistry.BusyError](err); busy {
		return
	}
	if h.may(nil, err); err != nil {
		return
	}
	d.Watch.Close()
	if d.Match == runregistry.MatchNone {
		h.leases = append(h.leases, d.Lease)
	}
}

// checkClaims compares every index with the runs that it is about.
func checkClaims(t *testing.T, s *Store) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	active := make(map[*account]int)
	carriers := make(map[place]int)
	var charged int64
	for _, r := range s.runs.byID {
		charged += r.charged
		if r.holding {
			active[r.account]++
		}
		checkRun(t, s, r)
		for _, name := range append(slices.Clone(r.rec.Aliases), r.rec.Conversation) {
			carriers[place{r.scope, name}]++
		}
	}
	for _, acct := range s.claims.accounts {
		if acct.active != active[acct] {
			t.Fatalf("got %d active runs by account, want %d", acct.active, active[acct])
		}
		for echo, runs := range acct.echoes {
			if runs.live == 0 {
				t.Fatalf("%v: got an index entry without runs", echo)
			}
		}
	}
	for at, n := range s.claims.places {
		if n.carriers != carriers[at] || n.carriers == 0 {
			t.Fatalf("%v: got %d carriers, want %d", at, n.carriers, carriers[at])
		}
	}
	if len(carriers) != len(s.claims.places) {
		t.Fatalf("got %d places, want %d", len(s.claims.places), len(carriers))
	}
	if s.Used() != charged {
		t.Fatalf("got %d bytes used, want %d", s.Used(), charged)
	}
}

func checkRun(t *testing.T, s *Store, r *run) {
	t.Helper()
	ended := r.rec.State.Terminal()
	if ended && r.holding || !r.holding && r.rec.State < runregistry.Cancelling {
		t.Fatalf("%s run: got holding %v", r.rec.State, r.holding)
	}
	if held := slices.Contains(r.dialogue.holders, r); held != r.holding {
		t.Fatalf("got holder %v of a run that holds: %v", held, r.holding)
	}
	if scheduled := r.deadline.index > 0; scheduled != ended || scheduled && s.agenda[r.deadline.index-1] != &r.deadline {
		t.Fatalf("%s run: got scheduled %v", r.rec.State, scheduled)
	}
	if ended && r.deadline.at.After(r.rec.ExpiresAt) {
		t.Fatalf("got a deadline at %v, after the expiry at %v", r.deadline.at, r.rec.ExpiresAt)
	}
}
