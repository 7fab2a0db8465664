package redisstore

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

func TestHintCarriesItsFrames(t *testing.T) {
	h, ok := parseHint("F 7 2 1000 2 9 3\n3:a:b1:\n")
	if !ok || h.first != 7 || h.oldest != 3 || h.revision != 9 || h.state != runregistry.Running || len(h.frames) != 2 {
		t.Fatalf("got %+v, want two frames from 7", h)
	}
	if string(h.frames[0].Data) != "a:b" || h.frames[1].Seq != 8 || string(h.frames[1].Data) != "\n" || !h.frames[1].At.Equal(time.UnixMilli(1000)) {
		t.Errorf("got frames %v", h.frames)
	}
	for _, text := range []string{"C", "R", "", "F 1 1 1", "X 1 2 3 4 5 6\n", "F1 1 1 1 1 1 1"} {
		if _, ok := parseHint(text); ok {
			t.Errorf("got frames announced by %q", text)
		}
	}
	for _, text := range []string{
		"F 1 1 1 1 1 1\n", "F 1 1 1 1 1 1\n9:a", "F 1 1 1 1 1 1\n-1:a", "F 1 2 1 1 1 1\n1:a", "F 1 1 1 1 1 1\nx:a", "F 1 1 1 1 1 1\n1:a1:b",
	} {
		if h, ok := parseHint(text); !ok || h.frames != nil {
			t.Errorf("%q: got frames %v, want them to be read", text, h.frames)
		}
	}
}

// Whatever a server publishes, a hint either carries all of its frames or none.
func FuzzHint(f *testing.F) {
	for _, seed := range []string{"F 7 2 1000 2 9 3\n3:a:b1:\n", "C", "F 1 1 1 1 1 1\n99999999999999999999:", "F 1 -1 1 1 1 1\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, ok := parseHint(text)
		if ok && len(h.frames) != 0 && len(h.frames) != h.count {
			t.Errorf("got %d frames, want %d or none", len(h.frames), h.count)
		}
	})
}

// followed is a tail of another instance's run that was read up to 2.
func followed() *tail {
	t := &tail{clock: new(clock)}
	t.watchers = []*watcher{{c: make(chan struct{}, 1)}}
	t.learn(standing{state: runregistry.Running, first: 1, last: 2, revision: 5}, question{})
	t.window.add(numbered(1, 2, 1))
	return t
}

func (t *tail) after(seq runregistry.Seq) (runregistry.Page, bool) {
	return t.page(&runregistry.PageQuery{After: seq}, time.Now())
}

func TestHintsAreAppliedByTheirNumbers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		hints  []string
		ok     bool // memory serves
		frames int
	}{
		{"none", nil, true, 0},
		{"the next", []string{"F 3 1 1 2 6 1\n1:c"}, true, 1},
		{"two in order", []string{"F 3 1 1 2 6 1\n1:c", "F 4 1 1 2 7 1\n1:d"}, true, 2},
		{"twice", []string{"F 3 1 1 2 6 1\n1:c", "F 3 1 1 2 6 1\n1:c"}, true, 1},
		{"heard before", []string{"F 1 2 1 2 5 1\n1:a1:b"}, true, 0},
		{"one lost", []string{"F 4 1 1 2 7 1\n1:d"}, false, 0},
		{"one lost, then more", []string{"F 4 1 1 2 7 1\n1:d", "F 5 1 1 2 8 1\n1:e"}, false, 0},
		{"too large to carry", []string{"F 3 1 1 2 6 1\n"}, false, 0},
		{"a change", []string{"C"}, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tail := followed()
			for _, h := range tt.hints {
				(&follower{tail}).message(h)
			}
			page, ok := tail.after(2)
			if ok != tt.ok || len(page.Frames) != tt.frames {
				t.Errorf("got %d frames, served from memory %v, want %d and %v", len(page.Frames), ok, tt.frames, tt.ok)
			}
			if woken := len(tail.watchers[0].c) == 1; woken != (len(tt.hints) > 0) {
				t.Errorf("got woken %v", woken)
			}
		})
	}
}

func TestResubscriptionIsAGap(t *testing.T) {
	tail := followed()
	(&follower{tail}).gap()
	if _, ok := tail.after(2); ok {
		t.Error("got an answer from memory, want Redis to be asked")
	}
	if len(tail.watchers[0].c) != 1 {
		t.Error("got no hint")
	}
}

// An answer to a question that was asked before a change was announced must not
// make readers rest: nothing would wake them again.
func TestAnswerFromBeforeAnAnnouncementIsNotBelieved(t *testing.T) {
	for _, announced := range []string{"C", "F 4 1 1 2 7 1\n1:d"} {
		tail := followed()
		(&follower{tail}).gap()
		asked := tail.asking()
		(&follower{tail}).message(announced)
		tail.learn(standing{state: runregistry.Running, first: 1, last: 3, revision: 6}, asked)
		if _, ok := tail.after(3); ok {
			t.Errorf("%q: got an answer from memory, want Redis to be asked again", announced)
		}
	}
	tail := followed()
	(&follower{tail}).gap()
	asked := tail.asking()
	(&follower{tail}).message("F 3 1 1 2 6 1\n1:c")
	tail.learn(standing{state: runregistry.Running, first: 1, last: 3, revision: 6}, asked)
	if _, ok := tail.after(3); !ok {
		t.Error("got Redis asked again, want an answer believed that knows what was announced")
	}
}

// An answer that was under way while more was learned must not undo that.
func TestOvertakenAnswerIsOld(t *testing.T) {
	tail := followed()
	asked := tail.asking()
	(&follower{tail}).message("F 3 1 1 2 6 1\n1:c")
	tail.learn(standing{state: runregistry.Running, first: 1, last: 2, revision: 5}, asked)
	if page, ok := tail.after(2); !ok || len(page.Frames) != 1 {
		t.Errorf("got %d frames, want the one that was announced", len(page.Frames))
	}
	asked = tail.asking()
	tail.learn(standing{state: runregistry.Running, first: 1, last: 1, revision: 4}, asked) // a tail was lost
	if page, ok := tail.after(1); !ok || len(page.Frames) != 0 || page.Last != 1 {
		t.Errorf("got %v frames up to %d, want none up to 1", page.Frames, page.Last)
	}
}

func TestRepliesThatOperatorsNeverSee(t *testing.T) {
	r := reply{"ok", "12", "x", int64(3)}
	if r.word() != "ok" || r.number(1) != 12 || r.number(2) != 0 || r.number(3) != 0 || r.text(9) != "" {
		t.Errorf("got %v read wrong", r)
	}
	if !slices.Equal([]string{flag(true), flag(false)}, []string{"1", "0"}) {
		t.Error("got flags that scripts do not know")
	}
}
