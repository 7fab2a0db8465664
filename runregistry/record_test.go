package runregistry

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestClientActionsFollowStateAndEffect(t *testing.T) {
	retry := []Action{ActionShowSnapshot, ActionOfferRetry}
	warn := []Action{ActionShowSnapshot, ActionWarnExternal}
	for _, s := range allStates[1:] {
		for _, e := range []Effect{EffectNone, EffectPossible, EffectObserved} {
			want := warn
			switch {
			case s.Active():
				want = []Action{ActionReattach}
			case s == Completed:
				want = []Action{ActionShowSnapshot}
			case e == EffectNone:
				want = retry
			}
			if got := (&Record{State: s, Effect: e}).ClientActions(); !slices.Equal(got, want) {
				t.Errorf("%s with effect %s: got %v, want %v", s, e, got, want)
			}
		}
	}
}

func TestRecordsKnowTheirLastNumbers(t *testing.T) {
	for _, tt := range []struct {
		state             State
		given, end, plain Seq
	}{
		{Running, 7, 0, 0},
		{Cancelling, 7, 0, 0},
		{Completed, 8, 8, 7},
		{Failed, 8, 8, 8},
		{Cancelled, 8, 8, 8},
		{Uncertain, 8, 8, 8},
	} {
		r := inState(Running)
		r.Grow(7, 7, born)
		if tt.state == Cancelling || tt.state == Cancelled {
			r.Stop("", born)
		}
		switch {
		case tt.state.Terminal():
			if err := r.Settle(&Settlement{State: tt.state}, born); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.LastGiven(); got != tt.given {
			t.Errorf("%s: got last number %d, want %d", tt.state, got, tt.given)
		}
		if got := r.DeliveredEnd(true); got != tt.end {
			t.Errorf("%s: got end %d with control, want %d", tt.state, got, tt.end)
		}
		if got := r.DeliveredEnd(false); got != tt.plain {
			t.Errorf("%s: got end %d without control, want %d", tt.state, got, tt.plain)
		}
	}
}

func TestErrorsSayWhatTheyAreAbout(t *testing.T) {
	id := NewRunID(0)
	for want, err := range map[string]error{
		string(id):             &BusyError{Run: id},
		"as " + string(id):     &InProgressError{Run: id},
		"runs is limited to 3": &LimitError{Limit: "runs", Max: 3},
		"ends at 5":            &GapError{Last: 5},
	} {
		if got := err.Error(); !strings.Contains(got, want) {
			t.Errorf("got %q, want it to say %q", got, want)
		}
	}
}

func TestOutcomesAreDistinct(t *testing.T) {
	outcomes := []error{
		ErrNoRun, ErrFenced, ErrSettled, ErrUnavailable, ErrExpired, ErrKeyReused, ErrDeleted, ErrRunActive, ErrTaken,
		ErrMalformedRunID, ErrMalformedCursor, ErrMalformedConversation, ErrMalformedPage,
	}
	for i, a := range outcomes {
		for j, b := range outcomes {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("got %v and %v for the same", a, b)
			}
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	for limit, want := range map[int]int{-5: 50, 0: 50, 1: 1, 200: 200, 201: 200, 1 << 40: 200} {
		if got := (ListQuery{Limit: limit}).Bound(); got != want {
			t.Errorf("limit %d: got %d, want %d", limit, got, want)
		}
	}
}

func TestPagesKnowWhetherMoreFollows(t *testing.T) {
	frames := []Frame{{Seq: 4}, {Seq: 5}}
	for _, tt := range []struct {
		page  Page
		after Seq
		want  bool
	}{
		{Page{Frames: frames, Last: 6}, 3, true},
		{Page{Frames: frames, Last: 5}, 3, false},
		{Page{Last: 5}, 4, true},
		{Page{Last: 5}, 5, false},
		{Page{Last: 5}, 9, false},
		{Page{}, 0, false},
	} {
		if got := tt.page.More(tt.after); got != tt.want {
			t.Errorf("%+v after %d: got %v, want %v", tt.page, tt.after, got, tt.want)
		}
	}
}

func TestWatchesCloseOnce(t *testing.T) {
	closed := 0
	w := NewWatch(make(chan struct{}), func() { closed++ })
	w.Close()
	w.Close()
	if closed != 1 {
		t.Errorf("got %d closings, want 1", closed)
	}
	var none *Watch
	none.Close()
	NewWatch(nil, nil).Close()
}

// TestUpstreamsOwnWordsAreNotRepeated: what upstream itself said of the end of
// a run needs no frame of ours.
func TestUpstreamsOwnWordsAreNotRepeated(t *testing.T) {
	for _, tt := range []struct {
		end     Settlement
		stopped bool
		told    bool
	}{
		{Settlement{State: Completed}, false, true},
		{Settlement{State: Failed, Reason: ReasonUpstreamError}, false, true},
		{Settlement{State: Failed, Reason: ReasonUpstreamStatus}, false, true},
		{Settlement{State: Failed, Reason: ReasonUpstreamTruncated}, false, false},
		{Settlement{State: Cancelled}, false, true},
		{Settlement{State: Cancelled}, true, false},
		{Settlement{State: Uncertain, Reason: ReasonHeaderTimeout}, false, false},
	} {
		r := inState(Running)
		if tt.stopped {
			r.Stop("", born)
		}
		if err := r.Settle(&tt.end, born); err != nil {
			t.Fatal(err)
		}
		if got := r.ToldByUpstream(); got != tt.told {
			t.Errorf("%s (%s), stopped %v: got told %v, want %v", tt.end.State, tt.end.Reason, tt.stopped, got, tt.told)
		}
	}
}
