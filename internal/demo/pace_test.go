package demo

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// silences are the times between neighbouring pieces, longest first.
func silences(tr *transcript) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(tr.at); i++ {
		out = append(out, tr.at[i]-tr.at[i-1])
	}
	slices.SortFunc(out, func(a, b time.Duration) int { return int(b - a) })
	return out
}

func TestAnswerComesAtReadingSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := ask(t.Context(), New(Options{}), streamed("hello"))
		if got, want := tr.at[0], firstToken*ReadingSpeed; got != want {
			t.Errorf("got the first piece after %v, want %v", got, want)
		}
		// 25 tokens a second: the 26th comes a second after the first.
		if got, want := tr.at[26]-tr.at[1], time.Second; got != want {
			t.Errorf("got 25 tokens in %v, want %v", got, want)
		}
		if got := silences(tr)[0]; got != ReadingSpeed {
			t.Errorf("got a silence of %v in a plain answer, want none over %v", got, ReadingSpeed)
		}
	})
}

func TestThinkingPauseIsLongerThanTwoKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := silences(ask(t.Context(), New(Options{}), streamed("think")))
		if got, want := all[0], (thoughtPause+1)*ReadingSpeed; got != want || got <= 30*time.Second {
			t.Errorf("got a longest silence of %v, want %v, over 30s", got, want)
		}
		if got := all[1]; got != ReadingSpeed {
			t.Errorf("got a second silence of %v, want one only", got)
		}
	})
}

func TestToolsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := silences(ask(t.Context(), New(Options{}), streamed("tool")))
		if want := (toolPause + 1) * ReadingSpeed; all[0] != want || all[1] != want {
			t.Errorf("got silences of %v and %v, want one of %v after each call", all[0], all[1], want)
		}
	})
}

func TestLongAnswerTakesSeveralMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := ask(t.Context(), New(Options{}), streamed("a long story"))
		if got := tr.at[len(tr.at)-1]; got < 4*time.Minute || got > 10*time.Minute {
			t.Errorf("got the end after %v, want several minutes", got)
		}
		if f := fold(t, tr); !f.done {
			t.Error("got no [DONE] at the end of the long answer")
		}
	})
}

func TestPausesScaleWithTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := silences(ask(t.Context(), New(Options{Interval: time.Millisecond}), streamed("think")))
		if got, want := all[0], (thoughtPause+1)*time.Millisecond; got != want {
			t.Errorf("got a longest silence of %v at a token per millisecond, want %v", got, want)
		}
	})
}

func TestWholeAnswerTakesAsLongAsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := ask(t.Context(), New(Options{}), streamed("think"))
		whole := ask(t.Context(), New(Options{}), `{"messages":[{"role":"user","content":"think"}]}`)
		// The stream ends with the finish, the usage and [DONE], all at once.
		if got, want := whole.at[0], stream.at[len(stream.at)-1]; got != want {
			t.Errorf("got the whole answer after %v, want %v", got, want)
		}
	})
}

func TestSlowWriteDoesNotSlowTheScheduleDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{})
		a := d.begin(request{})
		if err := a.wait(t.Context(), 1); err != nil {
			t.Fatalf("waiting: %v", err)
		}
		time.Sleep(10 * ReadingSpeed) // a write that took its time
		began := time.Now()
		for range 10 {
			if err := a.wait(t.Context(), 1); err != nil {
				t.Fatalf("waiting: %v", err)
			}
		}
		if got := time.Since(began); got != 0 {
			t.Errorf("got %v for ten pieces that were due, want none", got)
		}
	})
}
