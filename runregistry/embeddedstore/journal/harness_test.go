package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal/smalldisk"
)

// on makes the files of a journal on a disk.
func on(d *smalldisk.Disk) Create {
	return func(name string) (File, error) {
		f, err := d.Create(name)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

// say makes a payload of a text.
func say(text string) func([]byte) []byte {
	return func(b []byte) []byte { return append(b, text...) }
}

// reading opens a journal and returns what it replays.
func reading(t *testing.T, o Options) (*Journal, []string, Opened) {
	t.Helper()
	var got []string
	j, found, err := Open(o, func(b []byte) error { got = append(got, string(b)); return nil })
	if err != nil {
		t.Fatalf("got error %v, want the journal", err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil && !errors.Is(err, ErrSick) {
			t.Errorf("closing: %v", err)
		}
	})
	return j, got, found
}

// opening is reading for those who know what there is.
func opening(t *testing.T, o Options, want ...string) *Journal {
	t.Helper()
	j, got, _ := reading(t, o)
	if !slices.Equal(got, want) {
		t.Fatalf("got records %q, want %q", got, want)
	}
	return j
}

// add appends texts.
func add(t *testing.T, j *Journal, texts ...string) (at Position) {
	t.Helper()
	for _, text := range texts {
		var err error
		if at, err = j.Append(Running, say(text)); err != nil {
			t.Fatalf("appending %q: %v", text, err)
		}
	}
	return at
}

func closing(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
}

// only returns the one file of a directory whose name matches.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("got files %v (%v), want one", found, err)
	}
	return found[0]
}

func contents(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// crashed copies a directory as it is while somebody writes to it: what a
// process leaves behind when it is killed.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
