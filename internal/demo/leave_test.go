package demo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Promise 3.
func TestAnswerStopsWithinOneTokenOfItsReaderLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+time.Millisecond)
		defer cancel()
		tr := ask(ctx, d, streamed("a long story"))
		if got, want := time.Since(tr.began), 2*time.Second+time.Millisecond; got != want {
			t.Errorf("got the end after %v, want %v", got, want)
		}
		if got := tr.at[len(tr.at)-1]; got != 2*time.Second {
			t.Errorf("got the last piece at %v, want it at 2s", got)
		}
		call := d.calls.tally().Calls[0]
		if call.State != hungUp || call.Frames != len(events(t, tr)) {
			t.Errorf("got call %+v, want it hung up on after %d frames", call, len(events(t, tr)))
		}
		if f := fold(t, tr); f.done || len(f.finish) > 0 {
			t.Errorf("got done %v and finish %v, want neither", f.done, f.finish)
		}
	})
}

func TestPauseEndsWhenTheReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		tr := ask(ctx, New(Options{}), streamed("think"))
		if got := time.Since(tr.began); got != 20*time.Second {
			t.Errorf("got the end after %v, want 20s, in the middle of the pause", got)
		}
	})
}

func TestReaderThatLeavesBeforeTheFirstTokenGetsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := New(Options{Interval: time.Hour})
	for _, body := range []string{streamed("hello"), `{"messages":[{"role":"user","content":"hello"}]}`} {
		if tr := ask(ctx, d, body); len(tr.at) != 0 {
			t.Errorf("got %q, want nothing", tr.Body)
		}
		if got := d.calls.tally().Calls[0].State; got != hungUp {
			t.Errorf("got call %q, want %q", got, hungUp)
		}
	}
}

func TestFailedWriteEndsTheAnswer(t *testing.T) {
	for _, at := range []int{1, 2, 40} {
		d := fast()
		tr := askInto(t.Context(), d, streamed("hello"), &transcript{failAt: at})
		if got := len(tr.at); got != at {
			t.Errorf("got %d writes, want none after the failed one, number %d", got, at)
		}
		if got := d.calls.tally().Calls[0]; got.State != hungUp || got.Frames != at-1 {
			t.Errorf("got call %+v, want it hung up on after %d frames", got, at-1)
		}
	}
}

func TestFailedWriteOfTheLastChunksIsNotAFinishedAnswer(t *testing.T) {
	whole := len(events(t, ask(t.Context(), fast(), streamed("hello"))))
	for back := range 3 { // [DONE], usage, finish
		d := fast()
		askInto(t.Context(), d, streamed("hello"), &transcript{failAt: whole - back})
		if got := d.calls.tally().Calls[0].State; got != hungUp {
			t.Errorf("write %d of %d failed: got call %q, want %q", whole-back, whole, got, hungUp)
		}
	}
}

// Promise 3.
func TestLeavingLogsNothing(t *testing.T) {
	// The role comes after 160 ms, the rest takes 20 seconds.
	d := New(Options{Interval: 20 * time.Millisecond})
	s, logged := server(t, d)
	res := post(t, s, streamed("think"))
	if _, err := res.Body.Read(make([]byte, 1)); err != nil {
		t.Fatalf("reading the first byte: %v", err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatalf("leaving: %v", err)
	}
	s.Close() // waits for the handler
	if got := d.calls.tally().Calls[0].State; got != hungUp {
		t.Errorf("got call %q, want %q", got, hungUp)
	}
	if logged.Len() > 0 {
		t.Errorf("got log %q, want none", logged)
	}
}
