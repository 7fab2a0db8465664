package runregistry

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"
)

var (
	born = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	then = born.Add(time.Minute)
)

// inState returns the record of a run that got into a state the usual way.
func inState(s State) *Record {
	r := &Record{State: Queued, CreatedAt: born, Retention: Retention{Frames: time.Hour, Record: 3 * time.Hour, Key: 2 * time.Hour}}
	if s == Queued {
		return r
	}
	r.State, r.Effect, r.DispatchedAt = Running, EffectPossible, born
	switch {
	case s == Cancelling:
		r.Stop("", born)
	case s.Terminal():
		if err := r.Settle(&Settlement{State: s}, born); err != nil {
			panic(err)
		}
	default:
		r.State = s
	}
	return r
}

func TestIntentIsStoredOnce(t *testing.T) {
	for _, s := range allStates[1:] {
		r := inState(s)
		before := *r
		err := r.Intend(then)
		_, forbidden := errors.AsType[*TransitionError](err)
		switch {
		case s == Queued:
			if err != nil || r.State != Running || r.Effect != EffectPossible || !r.DispatchedAt.Equal(then) || r.Revision != before.Revision+1 {
				t.Errorf("queued: got %+v and error %v", r, err)
			}
		case s.Terminal() && errors.Is(err, ErrSettled), !s.Terminal() && forbidden:
			if !reflect.DeepEqual(*r, before) {
				t.Errorf("%s: got a changed record %+v", s, r)
			}
		default:
			t.Errorf("%s: got error %v", s, err)
		}
	}
}

func TestProgressMovesOnlyBetweenRunningAndWaiting(t *testing.T) {
	for _, from := range allStates[1:] {
		for _, to := range allStates {
			r := inState(from)
			changed := r.Advance(&Progress{State: to})
			moves := from == Running && to == Waiting || from == Waiting && to == Running
			want := from
			if moves {
				want = to
			}
			if r.State != want || changed != moves {
				t.Errorf("%s with progress %q: got %s, changed %v", from, to, r.State, changed)
			}
		}
	}
}

func TestProgressChangesWhatItNames(t *testing.T) {
	response := &Response{Status: 200, Header: map[string][]string{"A": {"b"}}, Stream: true}
	for name, tt := range map[string]struct {
		progress Progress
		got      func(r *Record) any
		want     any
	}{
		"response": {Progress{Response: response}, func(r *Record) any { return r.Response }, response},
		"format":   {Progress{Format: FormatLines}, func(r *Record) any { return r.Format }, FormatLines},
		"dialect":  {Progress{Dialect: "d"}, func(r *Record) any { return r.Dialect }, "d"},
		"model":    {Progress{Model: "m"}, func(r *Record) any { return r.Model }, "m"},
		"upstream": {Progress{UpstreamID: "u"}, func(r *Record) any { return r.UpstreamID }, "u"},
		"release":  {Progress{Release: "r"}, func(r *Record) any { return r.Release }, "r"},
		"effect":   {Progress{Effect: EffectObserved}, func(r *Record) any { return r.Effect }, EffectObserved},
		"usage":    {Progress{Usage: &Usage{InputTokens: 1}}, func(r *Record) any { return r.Usage }, Usage{InputTokens: 1}},
		"snapshot": {Progress{Snapshot: []byte("{}"), SnapshotSeq: 4}, func(r *Record) any { return string(r.Snapshot) }, "{}"},
		"number":   {Progress{Snapshot: []byte("{}"), SnapshotSeq: 4}, func(r *Record) any { return r.SnapshotSeq }, Seq(4)},
	} {
		for _, s := range []State{Running, Waiting, Cancelling} {
			r := inState(s)
			revision := r.Revision
			if !r.Advance(&tt.progress) || r.Revision != revision+1 {
				t.Errorf("%s while %s: got revision %d after %d", name, s, r.Revision, revision)
			}
			if got := tt.got(r); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s while %s: got %v, want %v", name, s, got, tt.want)
			}
			if before := *r; r.Advance(&tt.progress) || !reflect.DeepEqual(*r, before) {
				t.Errorf("%s while %s: got a change by the same progress again", name, s)
			}
		}
	}
}

func TestResponsesDifferInAnyOfTheirParts(t *testing.T) {
	base := Response{Status: 200, Header: map[string][]string{"A": {"b"}}}
	for name, change := range map[string]func(*Response){
		"status": func(p *Response) { p.Status = 201 },
		"header": func(p *Response) { p.Header = map[string][]string{"A": {"c"}} },
		"stream": func(p *Response) { p.Stream = true },
		"sized":  func(p *Response) { p.Sized = true },
		"kept":   func(p *Response) { p.Kept = true },
	} {
		r := inState(Running)
		r.Response = &base
		other := base
		change(&other)
		if !r.Advance(&Progress{Response: &other}) {
			t.Errorf("%s: got no change", name)
		}
	}
}

func TestNoProgressChangesNothing(t *testing.T) {
	for _, p := range []*Progress{nil, {}, {Effect: EffectPossible}, {State: Running}} {
		r := inState(Running)
		before := *r
		if r.Advance(p) || !reflect.DeepEqual(*r, before) {
			t.Errorf("%+v: got %+v, want no change", p, r)
		}
	}
}

func TestEffectOnlyGrows(t *testing.T) {
	for _, was := range []Effect{EffectNone, EffectPossible, EffectObserved} {
		for _, now := range []Effect{EffectNone, EffectPossible, EffectObserved} {
			r := &Record{State: Running, Effect: was}
			if r.Advance(&Progress{Effect: now}); r.Effect != max(was, now) {
				t.Errorf("%s then %s: got %s", was, now, r.Effect)
			}
		}
	}
}

func TestEndMarkerCountsOnlyBeforeStop(t *testing.T) {
	for s, want := range map[State]bool{Running: true, Waiting: true, Cancelling: false, Queued: false} {
		r := inState(s)
		if changed := r.Advance(&Progress{Ending: true}); r.Ending != want || changed != want {
			t.Errorf("%s: got ending %v, changed %v, want %v", s, r.Ending, changed, want)
		}
	}
}

func TestGrowingCountsFrames(t *testing.T) {
	r := inState(Running)
	r.Grow(0, 0, born)
	if r.LastSeq != 0 || !r.FirstFrameAt.IsZero() || r.Revision != 0 {
		t.Errorf("got %+v after no frame", r)
	}
	r.Grow(2, 10, born)
	r.Grow(3, 5, then)
	if r.FirstSeq != 1 || r.LastSeq != 5 || r.Bytes != 15 || r.Revision != 2 {
		t.Errorf("got frames %d to %d, %d bytes, revision %d", r.FirstSeq, r.LastSeq, r.Bytes, r.Revision)
	}
	if !r.FirstFrameAt.Equal(born) || !r.ActivityAt.Equal(then) {
		t.Errorf("got first frame at %v, activity at %v", r.FirstFrameAt, r.ActivityAt)
	}
}

func TestRenamingKeepsEveryNameOnce(t *testing.T) {
	r := &Record{Conversation: "a"}
	names := r.Aliases
	for _, tt := range []struct {
		to      ConversationID
		aliases []ConversationID
	}{
		{"a", nil}, {"b", []ConversationID{"a"}}, {"c", []ConversationID{"a", "b"}}, {"a", []ConversationID{"b", "c"}}, {"a", []ConversationID{"b", "c"}},
	} {
		older, kept := names, slices.Clone(names)
		r.Rename(tt.to)
		if r.Conversation != tt.to || !slices.Equal(r.Aliases, tt.aliases) {
			t.Errorf("got %s, also %v, want %s, also %v", r.Conversation, r.Aliases, tt.to, tt.aliases)
		}
		if !slices.Equal(older, kept) {
			t.Errorf("got aliases %v in the copy of an older record, want %v", older, kept)
		}
		names = r.Aliases
	}
	if r.Revision != 3 {
		t.Errorf("got revision %d, want 3", r.Revision)
	}
	for c, want := range map[ConversationID]bool{"a": true, "b": true, "c": true, "d": false, "": false} {
		if got := r.InConversation(c); got != want {
			t.Errorf("%q: got %v, want %v", c, got, want)
		}
	}
	unnamed := &Record{}
	if unnamed.Rename("x"); len(unnamed.Aliases) != 0 {
		t.Errorf("got aliases %v of a run that had no name", unnamed.Aliases)
	}
}
