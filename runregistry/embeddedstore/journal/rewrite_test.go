package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal/smalldisk"
)

// base writes texts into a base.
func base(texts ...string) func(*Writer) error {
	return func(w *Writer) error {
		for _, text := range texts {
			if err := w.Write(say(text)); err != nil {
				return err
			}
		}
		return nil
	}
}

func rewriting(t *testing.T, j *Journal, fill func(*Writer) error) {
	t.Helper()
	if err := j.Rewrite(fill); err != nil {
		t.Fatalf("rewriting: %v", err)
	}
}

func TestARewriteDropsWhatIsNotInIt(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	add(t, j, "gone", "kept")
	rewriting(t, j, base("kept"))
	add(t, j, "later")
	for _, e := range listed(t, dir) {
		if bytes.Contains(contents(t, filepath.Join(dir, e)), []byte("gone")) {
			t.Errorf("%s still has what was dropped", e)
		}
	}
	closing(t, j)
	j = opening(t, Options{Dir: dir}, "kept", "later")
	rewriting(t, j, base())
	closing(t, j)
	opening(t, Options{Dir: dir})
}

func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Whenever the process dies, either everything old is there or the whole base,
// and everything that was appended.
func TestACrashDuringARewriteLosesNothing(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	add(t, j, "a", "b")
	rewriting(t, j, func(w *Writer) error {
		add(t, j, "c")
		opening(t, Options{Dir: crashed(t, dir)}, "a", "b", "c")
		for range 10 {
			if err := w.Write(say(strings.Repeat("A", maxBuffer/4))); err != nil {
				return err
			}
		}
		add(t, j, "d")
		opening(t, Options{Dir: crashed(t, dir)}, "a", "b", "c", "d")
		return nil
	})
	_, got, _ := reading(t, Options{Dir: crashed(t, dir)})
	if n := len(got); n != 12 || !slices.Equal(got[10:], []string{"c", "d"}) {
		t.Errorf("got %d records, want the 10 of the base and the 2 that came meanwhile", n)
	}
}

// The old files go one by one.
func TestFilesThatABaseReplacesAreIgnored(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	add(t, j, "a")
	old := contents(t, fileName(dir, 1, logSuffix))
	rewriting(t, j, base("A"))
	closing(t, j)
	put(t, fileName(dir, 1, logSuffix), old)
	put(t, fileName(dir, 2, baseSuffix+draftSuffix), old)
	closing(t, opening(t, Options{Dir: dir}, "A"))
	for _, name := range listed(t, dir) {
		if strings.HasPrefix(name, "0000000000000001") || strings.HasSuffix(name, draftSuffix) {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestARewriteThatFailsKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	disk := smalldisk.New(dir)
	j := opening(t, Options{Dir: dir, Create: on(disk)})
	add(t, j, "a")
	no := errors.New("no")
	if err := j.Rewrite(func(*Writer) error { return no }); !errors.Is(err, no) {
		t.Errorf("got error %v, want %v", err, no)
	}
	add(t, j, "b")
	disk.Fill(1000)
	if err := j.Rewrite(base(strings.Repeat("x", 2000))); !errors.Is(err, ErrFull) {
		t.Errorf("got error %v, want %v", err, ErrFull)
	}
	add(t, j, "c") // what the base took of the disk is free again
	disk.Empty()
	for _, name := range listed(t, dir) {
		if strings.HasSuffix(name, draftSuffix) {
			t.Errorf("%s is still there", name)
		}
	}
	opening(t, Options{Dir: crashed(t, dir)}, "a", "b", "c")
	rewriting(t, j, base("abc"))
	closing(t, j)
	opening(t, Options{Dir: dir}, "abc")
}

func TestTheSizeIsThatOfTheFiles(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir, Reserve: 100})
	check := func() {
		t.Helper()
		var want int64
		for _, name := range listed(t, dir) {
			if name != reserveName {
				want += int64(len(contents(t, filepath.Join(dir, name))))
			}
		}
		if j.Size() != want {
			t.Errorf("got a size of %d, want %d", j.Size(), want)
		}
	}
	check()
	for i := range 5 {
		add(t, j, fmt.Sprint("record ", i))
		check()
	}
	rewriting(t, j, base("base"))
	check()
	add(t, j, "more")
	check()
	closing(t, j)
	j, _, _ = reading(t, Options{Dir: dir, Reserve: 100})
	check()
}
