package storetest

import (
	"strings"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var noteTests = []sharedTest{
	{"whoever comes second finds it", noteFound},
	{"it is rewritten where it stands", noteRewritten},
	{"it may be left again under its name once it is removed", noteRemoved},
	{"it has a deadline", noteExpires},
}

// noted leaves a note and returns what was found instead.
func (f *fixture) noted(id runregistry.RunID, name byte, note string) string {
	f.Helper()
	found, err := f.leaser().Note(f.ctx, id, runregistry.Digest{name}, []byte(note), time.Minute)
	f.wantErr("leaving a note", err, nil)
	return string(found)
}

func (f *fixture) rewrite(id runregistry.RunID, name byte, note []byte) {
	f.Helper()
	f.wantErr("rewriting a note", f.leaser().Rewrite(f.ctx, id, runregistry.Digest{name}, note), nil)
}

func noteFound(f *pair) {
	l, unlike := f.running(), f.running()
	want(f.fixture, "found by the first", f.noted(l.Run, 1, "mine"), "")
	want(f.fixture, "found by the first, again", f.noted(l.Run, 1, "mine"), "")
	want(f.fixture, "found by the second", f.other.noted(l.Run, 1, "theirs"), "mine")
	want(f.fixture, "found under another name", f.other.noted(l.Run, 2, "theirs"), "")
	want(f.fixture, "found of another run", f.other.noted(unlike.Run, 1, "theirs"), "")
}

func noteRewritten(f *pair) {
	l := f.running()
	f.rewrite(l.Run, 1, []byte("nothing to rewrite"))
	want(f.fixture, "found by the first", f.noted(l.Run, 1, "under way"), "")
	f.rewrite(l.Run, 1, []byte("done"))
	want(f.fixture, "found by the second", f.other.noted(l.Run, 1, "theirs"), "done")
}

func noteRemoved(f *pair) {
	l := f.running()
	f.noted(l.Run, 1, "mine")
	f.rewrite(l.Run, 1, nil)
	want(f.fixture, "found by the second", f.other.noted(l.Run, 1, "theirs"), "")
	want(f.fixture, "found by the first", f.noted(l.Run, 1, "mine"), "theirs")
}

func noteExpires(f *pair) {
	l := f.running()
	before := f.server.Deadlines()
	f.noted(l.Run, 1, "under way")
	f.rewrite(l.Run, 1, []byte("done"))
	found := false
	for key, left := range f.server.Deadlines() {
		if _, old := before[key]; !old && strings.Contains(key, string(l.Run)) {
			found = true
			want(f.fixture, "a minute at most is left", left > 0 && left <= time.Minute, true)
		}
	}
	want(f.fixture, "the note is stored", found, true)
}
