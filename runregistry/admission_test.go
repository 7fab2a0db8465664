package runregistry

import (
	"testing"
	"time"
)

func TestImplicitRetriesFindOnlyWhatTheyMayHave(t *testing.T) {
	for _, tt := range []struct {
		name             string
		state            State
		change           func(*Record)
		resumes, repeats bool
	}{
		{"queued", Queued, nil, true, true},
		{"running", Running, nil, true, true},
		{"waiting", Waiting, nil, true, true},
		{"cancelling", Cancelling, nil, false, false},
		{"completed", Completed, nil, false, true},
		{"failed", Failed, nil, false, false},
		{"cancelled", Cancelled, nil, false, false},
		{"uncertain", Uncertain, nil, false, false},
		{"ending", Running, func(r *Record) { r.Ending = true }, false, true},
		{"stopped too late", Completed, func(r *Record) { r.Cancel.Version = 1 }, false, false},
		{"answered 200", Running, func(r *Record) { r.Response = &Response{Status: 200} }, true, true},
		{"answered 299", Running, func(r *Record) { r.Response = &Response{Status: 299} }, true, true},
		{"answered 199", Running, func(r *Record) { r.Response = &Response{Status: 199} }, false, false},
		{"answered 300", Running, func(r *Record) { r.Response = &Response{Status: 300} }, false, false},
		{"answered 500", Completed, func(r *Record) { r.Response = &Response{Status: 500} }, false, false},
		{"trimmed", Running, func(r *Record) { r.LastSeq, r.FirstSeq = 9, 2 }, true, false},
		{"expired", Completed, func(r *Record) { r.LastSeq, r.FirstSeq, r.FramesExpireAt = 9, 1, born }, false, false},
		{"delivered", Running, func(r *Record) { r.Delivery = Delivery{} }, true, false},
	} {
		r := inState(tt.state)
		r.Delivery.BrokenEarly = true
		if tt.change != nil {
			tt.change(r)
		}
		a := &Admission{Named: true, ImplicitWindow: time.Minute}
		if got := a.Resumes(r); got != tt.resumes {
			t.Errorf("%s: got resumes %v, want %v", tt.name, got, tt.resumes)
		}
		if got := a.Repeats(r, then); got != tt.repeats {
			t.Errorf("%s: got repeats %v, want %v", tt.name, got, tt.repeats)
		}
		if (&Admission{}).Resumes(r) {
			t.Errorf("%s: got a resumed run in a conversation that was not named", tt.name)
		}
	}
}

func TestImplicitRetriesHaveAWindow(t *testing.T) {
	r := inState(Running)
	r.Delivery.BrokenEarly = true
	a := &Admission{ImplicitWindow: time.Minute}
	if !a.Repeats(r, born.Add(time.Minute)) || a.Repeats(r, born.Add(time.Minute+1)) {
		t.Error("got a window that does not end after a minute")
	}
	late := &Record{State: Running, CreatedAt: born, Delivery: Delivery{Headers: true, BrokenLate: true}}
	if a.MidStream = true; !a.Repeats(late, born) {
		t.Error("got a delivery broken in mid-stream refused to a GET")
	}
}

func TestBusyPoliciesDecideWhoGivesWay(t *testing.T) {
	for _, tt := range []struct {
		name       string
		busy       Busy
		mayReplace bool
		other      BusyError
		want       bool
	}{
		{"auto, mine, unread", BusyAuto, false, BusyError{Mine: true}, true},
		{"auto, mine, read", BusyAuto, false, BusyError{Mine: true, Readers: 1}, false},
		{"auto, foreign", BusyAuto, true, BusyError{}, false},
		{"auto, ending", BusyAuto, false, BusyError{Mine: true, Ending: true}, false},
		{"reject, mine, unread", BusyReject, true, BusyError{Mine: true}, false},
		{"replace, mine, read", BusyReplace, false, BusyError{Mine: true, Readers: 9}, true},
		{"replace, foreign", BusyReplace, false, BusyError{}, false},
		{"replace, foreign with access", BusyReplace, true, BusyError{Readers: 9}, true},
		{"replace, ending", BusyReplace, true, BusyError{Mine: true, Ending: true}, false},
		{"allow", BusyAllow, true, BusyError{Mine: true}, false},
	} {
		a := &Admission{Busy: tt.busy, MayReplace: tt.mayReplace}
		if got := a.Replaces(&tt.other); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestNewRecordsAreQueuedWithOneDelivery(t *testing.T) {
	a := &Admission{Run: NewRunID(3), Conversation: "c", Named: true, Retention: Retention{1, 2, 3}}
	r := a.NewRecord(then)
	if r.ID != a.Run || r.State != Queued || r.Epoch != 1 || r.Attempt != 1 || r.Revision != 1 || r.Format != FormatSSE {
		t.Errorf("got %+v", r)
	}
	if r.Delivery != (Delivery{Pending: 1}) || !r.CreatedAt.Equal(then) || !r.ActivityAt.Equal(then) || r.Retention != a.Retention {
		t.Errorf("got %+v", r)
	}
}
