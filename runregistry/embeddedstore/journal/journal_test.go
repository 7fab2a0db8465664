package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal/smalldisk"
)

func removeFile(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsComeBackWholeAndInOrder(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for round := range 4 {
		j := opening(t, Options{Dir: dir}, want...)
		for i := range 5 {
			text := fmt.Sprintf("round %d record %d %s", round, i, strings.Repeat("x", i*1000))
			add(t, j, text)
			want = append(want, text)
		}
		closing(t, j)
	}
	opening(t, Options{Dir: dir}, want...)
}

// What was acknowledged is in the file, whatever the process does next.
func TestEveryAppendIsInTheFileWhenItReturns(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	var want []string
	for i := range 20 {
		text := fmt.Sprint("record ", i)
		add(t, j, text)
		want = append(want, text)
		opening(t, Options{Dir: crashed(t, dir)}, want...)
	}
}

func TestAReplayThatFailsEndsTheOpening(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	add(t, j, "first", "second")
	closing(t, j)
	no := errors.New("no")
	calls := 0
	_, _, err := Open(Options{Dir: dir}, func([]byte) error { calls++; return no })
	if !errors.Is(err, no) || calls != 1 {
		t.Errorf("got error %v after %d records", err, calls)
	}
	opening(t, Options{Dir: dir}, "first", "second")
}

func TestOneProcessHasTheDirectory(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	if _, _, err := Open(Options{Dir: dir}, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("got error %v, want %v", err, ErrLocked)
	}
	closing(t, j)
	opening(t, Options{Dir: dir})
}

func TestAClosedJournalTakesNothing(t *testing.T) {
	j := opening(t, Options{Dir: t.TempDir()})
	at := add(t, j, "first")
	closing(t, j)
	closing(t, j)
	_, appended := j.Append(Running, say("second"))
	for call, err := range map[string]error{
		"append": appended, "mend": j.Mend(), "rewrite": j.Rewrite(func(*Writer) error { return nil }), "sync": j.Sync(at + 1),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got error %v, want %v", call, err, ErrClosed)
		}
	}
	if err := j.Sync(at); err != nil {
		t.Errorf("got error %v for what was synced when it was closed", err)
	}
}

func TestAnEmptyRecordIsRefused(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	if _, err := j.Append(Running, say("")); !errors.Is(err, errPayload) {
		t.Errorf("got error %v, want %v", err, errPayload)
	}
	add(t, j, "first")
	closing(t, j)
	opening(t, Options{Dir: dir}, "first")
}

func TestSyncIsSharedByThoseWhoWait(t *testing.T) {
	dir := t.TempDir()
	disk := smalldisk.New(dir)
	j := opening(t, Options{Dir: dir, Create: on(disk)})
	before := disk.Syncs()
	var at Position
	for range 50 {
		at = add(t, j, "record")
	}
	var all sync.WaitGroup
	for p := range at {
		if p%10 == 0 {
			all.Go(func() {
				if err := j.Sync(p + 1); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := disk.Syncs() - before; got != 1 {
		t.Errorf("got %d syncs for what was written before the first, want 1", got)
	}
	if err := j.Sync(0); err != nil || disk.Syncs()-before != 1 {
		t.Errorf("got error %v and a sync of nothing", err)
	}
}

func TestAppendsOfManyGoroutinesStayWhole(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	const writers, each = 8, 200
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				at, err := j.Append(New, say(fmt.Sprintf("%d/%03d/%s", w, i, strings.Repeat("y", i))))
				if err == nil && i%50 == 0 {
					err = j.Sync(at)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		if err := j.Rewrite(func(w *Writer) error { return w.Write(say("base")) }); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	closing(t, j)
	_, got, _ := reading(t, Options{Dir: dir})
	got = slices.DeleteFunc(got, func(s string) bool { return s == "base" })
	last := make(map[string]string)
	for _, record := range got {
		w, rest, _ := strings.Cut(record, "/")
		if rest <= last[w] {
			t.Fatalf("got %q after %q", rest, last[w])
		}
		last[w] = rest
	}
	if len(last) == 0 {
		t.Error("got no record that came after the rewrite began")
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	j := opening(t, Options{Dir: t.TempDir()})
	payload := strings.Repeat("x", 150)
	allocs := testing.AllocsPerRun(500, func() {
		if _, err := j.Append(Running, func(b []byte) []byte { return append(b, payload...) }); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("got %.1f allocations per record, want none", allocs)
	}
}
