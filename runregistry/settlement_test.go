package runregistry

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

func TestSettlingFollowsTheTable(t *testing.T) {
	for _, from := range allStates[1:] {
		for _, to := range allStates {
			r := inState(from)
			before := *r
			err := r.Settle(&Settlement{State: to, Progress: &Progress{Model: "m"}}, then)
			_, forbidden := errors.AsType[*TransitionError](err)
			// Whatever ends a run that was told to stop, the end is cancelled;
			// only that nobody knows is still worth saying.
			reached := to
			if from == Cancelling && to.Terminal() && to != Uncertain {
				reached = Cancelled
			}
			switch {
			case from.Terminal():
				if !errors.Is(err, ErrSettled) || !reflect.DeepEqual(*r, before) {
					t.Errorf("%s to %q: got %s and error %v", from, to, r.State, err)
				}
			case !reached.Terminal() || !from.CanBecome(reached):
				if !forbidden || !reflect.DeepEqual(*r, before) {
					t.Errorf("%s to %q: got %s and error %v", from, to, r.State, err)
				}
			case err != nil || r.State != reached || r.Model != "m":
				t.Errorf("%s to %q: got %s and error %v, want %s", from, to, r.State, err, reached)
			}
		}
	}
}

func TestSettlingNumbersTheEndAndStartsTheClocks(t *testing.T) {
	r := inState(Running)
	r.Grow(7, 70, born)
	revision := r.Revision
	if err := r.Settle(&Settlement{State: Failed, Reason: ReasonIdleTimeout}, then); err != nil {
		t.Fatal(err)
	}
	if r.Revision != revision+1 {
		t.Errorf("got revision %d after %d", r.Revision, revision)
	}
	if r.Reason != ReasonIdleTimeout || r.FinalSeq != 8 || r.LastSeq != 7 || !r.EndedAt.Equal(then) {
		t.Errorf("got %+v", r)
	}
	if !r.FramesExpireAt.Equal(then.Add(time.Hour)) || !r.ExpiresAt.Equal(then.Add(3*time.Hour)) || !r.KeyExpiresAt().Equal(then.Add(2*time.Hour)) {
		t.Errorf("got frames until %v, record until %v, key until %v", r.FramesExpireAt, r.ExpiresAt, r.KeyExpiresAt())
	}
	if r.Cancel != (Cancel{}) {
		t.Errorf("got cancel %+v without a Stop", r.Cancel)
	}
}

// race is an order in which a Stop and what upstream does can reach a record.
type race struct {
	name    string
	steps   []func(*Record)
	end     Settlement
	state   State
	reason  Reason
	effect  Effect
	outcome Outcome
}

func stop(r *Record)      { r.Stop("", then) }
func supersede(r *Record) { r.Stop(ReasonSuperseded, then) }
func marker(r *Record)    { r.Advance(&Progress{Ending: true}) }
func receipt(r *Record)   { r.Advance(&Progress{Effect: EffectObserved}) }

func steps(s ...func(*Record)) []func(*Record) { return s }

var races = []race{
	{"end", steps(), Settlement{State: Completed}, Completed, "", EffectPossible, ""},
	{"end at a limit", steps(marker), Settlement{State: Completed, Reason: ReasonLength}, Completed, ReasonLength, EffectPossible, ""},
	{"stop, end", steps(stop), Settlement{State: Completed}, Cancelled, "", EffectPossible, CancelledAfterEffect},
	{"stop, break", steps(stop), Settlement{State: Failed, Reason: ReasonUpstreamTruncated}, Cancelled, "", EffectPossible, CancelledAfterEffect},
	{"stop, dial failure", steps(stop), Settlement{State: Failed, NoEffect: true}, Cancelled, "", EffectNone, CancelledBeforeEffect},
	{"stop, receipt, end", steps(stop, receipt), Settlement{State: Completed, NoEffect: true}, Cancelled, "", EffectObserved, CancelledAfterEffect},
	{"supersede, end", steps(supersede), Settlement{State: Completed}, Cancelled, ReasonSuperseded, EffectPossible, CancelledAfterEffect},
	{"stop, supersede", steps(stop, supersede), Settlement{State: Cancelled}, Cancelled, "", EffectPossible, CancelledAfterEffect},
	{"supersede, stop", steps(supersede, stop), Settlement{State: Cancelled}, Cancelled, ReasonSuperseded, EffectPossible, CancelledAfterEffect},
	{"marker, stop, end", steps(marker, stop), Settlement{State: Completed}, Completed, "", EffectPossible, AlreadyTerminal},
	{"marker, stop, error", steps(marker, stop), Settlement{State: Failed, Reason: ReasonUpstreamError}, Failed, ReasonUpstreamError, EffectPossible, AlreadyTerminal},
	{"stop, marker, end", steps(stop, marker), Settlement{State: Completed}, Cancelled, "", EffectPossible, CancelledAfterEffect},
	{"stop, marker with the end", steps(stop), Settlement{State: Completed, Progress: &Progress{Ending: true}}, Cancelled, "", EffectPossible, CancelledAfterEffect},
	{"stop, gateway stops", steps(stop), Settlement{State: Uncertain, Reason: ReasonGatewayStopped}, Uncertain, ReasonGatewayStopped, EffectPossible, AlreadyTerminal},
	{"cancelled by upstream", steps(), Settlement{State: Cancelled}, Cancelled, "", EffectPossible, ""},
	{"receipt, dial failure", steps(receipt), Settlement{State: Failed, NoEffect: true}, Failed, "", EffectObserved, ""},
	{"receipt with the end", steps(), Settlement{State: Failed, NoEffect: true, Progress: &Progress{Effect: EffectObserved}}, Failed, "", EffectObserved, ""},
}

func TestEveryRaceOfStopAndEndHasOneOutcome(t *testing.T) {
	for _, from := range []State{Running, Waiting} {
		for _, tt := range races {
			t.Run(fmt.Sprint(from, ": ", tt.name), func(t *testing.T) { tt.run(t, inState(from)) })
		}
	}
}

func (tt *race) run(t *testing.T, r *Record) {
	for _, step := range tt.steps {
		step(r)
	}
	tt.end.Upstream = Unconfirmed
	if err := r.Settle(&tt.end, then); err != nil {
		t.Fatal(err)
	}
	if r.State != tt.state || r.Reason != tt.reason || r.Effect != tt.effect || r.Cancel.Outcome != tt.outcome {
		t.Errorf("got %s, reason %q, effect %s, outcome %q, want %s, %q, %s, %q",
			r.State, r.Reason, r.Effect, r.Cancel.Outcome, tt.state, tt.reason, tt.effect, tt.outcome)
	}
	if told := r.Cancel.Upstream == Unconfirmed; told != (tt.outcome != "") {
		t.Errorf("got upstream %q with outcome %q", r.Cancel.Upstream, tt.outcome)
	}
	if err := r.Settle(&Settlement{State: Failed}, then); !errors.Is(err, ErrSettled) {
		t.Errorf("settling again: got error %v, want %v", err, ErrSettled)
	}
	if r.Stop("", then) {
		t.Error("stopping afterwards: got a change")
	}
}

func TestStopMovesEachStateOnce(t *testing.T) {
	for _, from := range allStates {
		r := inState(Queued)
		if from != StateNone {
			r = inState(from)
		}
		r.State = from
		before := *r
		changed := r.Stop(ReasonDeadlineExceeded, then)
		if grown := r.Revision == before.Revision+1; grown != changed {
			t.Errorf("%s: got revision %d after %d", from, r.Revision, before.Revision)
		}
		switch from {
		case Queued:
			want := Cancel{Version: 1, RequestedAt: then, Outcome: CancelledBeforeEffect, Upstream: Confirmed}
			if !changed || r.State != Cancelled || r.Cancel != want || r.Effect != EffectNone || r.FinalSeq != 1 || !r.EndedAt.Equal(then) {
				t.Errorf("queued: got %+v", r)
			}
		case Running, Waiting:
			want := Cancel{Version: 1, RequestedAt: then, Outcome: CancellationPending}
			if !changed || r.State != Cancelling || r.Cancel != want || r.Reason != ReasonDeadlineExceeded || !r.EndedAt.IsZero() {
				t.Errorf("%s: got %+v", from, r)
			}
		default:
			if changed || !reflect.DeepEqual(*r, before) {
				t.Errorf("%s: got a change to %+v", from, r)
			}
		}
	}
}

func TestKeyIsFreedOnlyWithoutEffect(t *testing.T) {
	for _, tt := range []struct {
		name       string
		dispatched bool
		settlement Settlement
		want       bool
	}{
		{"release status", true, Settlement{State: Failed, NoEffect: true, ReleaseKey: true}, true},
		{"release status after an effect", true, Settlement{State: Failed, NoEffect: true, ReleaseKey: true, Progress: &Progress{Effect: EffectObserved}}, false},
		{"release without a word on the effect", true, Settlement{State: Failed, ReleaseKey: true}, false},
		{"no effect by the operator's word", true, Settlement{State: Completed, NoEffect: true}, false},
		{"end", true, Settlement{State: Completed}, false},
		{"never dispatched", false, Settlement{State: Failed}, true},
	} {
		r := inState(Queued)
		if tt.dispatched {
			r = inState(Running)
		}
		if err := r.Settle(&tt.settlement, then); err != nil {
			t.Fatal(err)
		}
		if got := tt.settlement.FreesKey(r); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRetentionIsShortenedNeverExtended(t *testing.T) {
	for _, tt := range []struct {
		name                string
		retention           Retention
		keep                time.Duration
		frames, record, key time.Duration
	}{
		{"as configured", Retention{1, 3, 2}, 0, 1, 3, 2},
		{"kept shorter", Retention{100, 300, 200}, 150, 100, 150, 150},
		{"kept very short", Retention{100, 300, 200}, 10, 10, 10, 10},
		{"kept longer", Retention{1, 3, 2}, 10, 1, 3, 2},
		{"frames longer than the record", Retention{9, 3, 2}, 0, 3, 3, 2},
		{"key as long as the record", Retention{1, 3, 0}, 0, 1, 3, 3},
		{"key longer than the record", Retention{1, 3, 9}, 0, 1, 3, 3},
		{"key as long as a shortened record", Retention{10, 30, 0}, 20, 10, 20, 20},
	} {
		r := inState(Running)
		r.Retention = tt.retention
		if err := r.Settle(&Settlement{State: Completed, Keep: tt.keep}, then); err != nil {
			t.Fatal(err)
		}
		frames, record, key := r.FramesExpireAt.Sub(then), r.ExpiresAt.Sub(then), r.KeyExpiresAt().Sub(then)
		if frames != tt.frames || record != tt.record || key != tt.key {
			t.Errorf("%s: got %d, %d, %d, want %d, %d, %d", tt.name, frames, record, key, tt.frames, tt.record, tt.key)
		}
	}
	if at := inState(Running).KeyExpiresAt(); !at.IsZero() {
		t.Errorf("got a key until %v while the run is active", at)
	}
}
