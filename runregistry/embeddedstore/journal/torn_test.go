package journal

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
)

func TestATailThatIsTornAnywhereIsCutAtTheLastWholeRecord(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	add(t, j, "first", "second")
	whole := contents(t, only(t, dir, "*.log"))
	add(t, j, "the last one")
	log := only(t, dir, "*.log")
	full := contents(t, log)
	name := filepath.Base(log)
	for end := len(whole); end < len(full); end++ {
		at := t.TempDir()
		put(t, filepath.Join(at, name), full[:end])
		j, got, found := reading(t, Options{Dir: at})
		if want := []string{"first", "second"}; !slices.Equal(got, want) || found.Cut != int64(end-len(whole)) {
			t.Fatalf("torn at %d: got records %q and %d bytes cut, want %q and %d", end, got, found.Cut, want, end-len(whole))
		}
		// It goes on, and what was cut does not come back.
		add(t, j, "third")
		closing(t, j)
		opening(t, Options{Dir: at}, "first", "second", "third")
	}
}

// A power cut may leave anything where nothing was synced.
func TestTheNewestLogEndsWhereItMakesNoSense(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	add(t, j, "first")
	log := only(t, dir, "*.log")
	from := len(contents(t, log))
	add(t, j, "second", "third")
	full := contents(t, log)
	for at := from; at < from+prefixSize+len("second"); at++ {
		copied := t.TempDir()
		damaged := slices.Clone(full)
		damaged[at] ^= 0x10
		put(t, filepath.Join(copied, filepath.Base(log)), damaged)
		_, got, found := reading(t, Options{Dir: copied})
		if !slices.Equal(got, []string{"first"}) || found.Cut != int64(len(full)-from) {
			t.Errorf("byte %d: got records %q and %d bytes cut", at, got, found.Cut)
		}
	}
}

// A log that another one follows is whole on the disk: no crash explains a
// wrong byte in it.
func TestDamageInTheMiddleIsReported(t *testing.T) {
	dir := t.TempDir()
	j := opening(t, Options{Dir: dir})
	add(t, j, "first", "second")
	log := only(t, dir, "*.log")
	closing(t, j)
	closing(t, opening(t, Options{Dir: dir}, "first", "second"))
	full := contents(t, log)
	for at := range full {
		damaged := slices.Clone(full)
		damaged[at] ^= 1
		put(t, log, damaged)
		_, _, err := Open(Options{Dir: dir}, func([]byte) error { return nil })
		bad, ok := errors.AsType[*DamageError](err)
		if !ok || bad.File != log {
			t.Fatalf("byte %d: got error %v, want damage of %s", at, err, log)
		}
	}
	put(t, log, full[:len(full)-1])
	_, _, err := Open(Options{Dir: dir}, func([]byte) error { return nil })
	if _, ok := errors.AsType[*DamageError](err); !ok {
		t.Errorf("cut by a byte: got error %v, want damage", err)
	}
	put(t, log, full)
	opening(t, Options{Dir: dir}, "first", "second")
}

func TestAMissingFileIsReported(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"a", "b", "c"} {
		j, _, _ := reading(t, Options{Dir: dir})
		add(t, j, text)
		closing(t, j)
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, missing := range logs[:2] {
		copied := crashed(t, dir)
		kept := crashed(t, dir)
		removeFile(t, filepath.Join(copied, filepath.Base(missing)))
		_, _, err := Open(Options{Dir: copied}, func([]byte) error { return nil })
		if bad, ok := errors.AsType[*DamageError](err); !ok || !errors.Is(bad, errMissing) {
			t.Errorf("without %s: got error %v, want damage", missing, err)
		}
		opening(t, Options{Dir: kept}, "a", "b", "c")
	}
}

// A process may die between making a log and writing its header.
func TestALogWithoutAHeaderWasNeverBegun(t *testing.T) {
	for _, unborn := range [][]byte{nil, magic[:], make([]byte, headerSize)} {
		dir := t.TempDir()
		j := opening(t, Options{Dir: dir})
		add(t, j, "first")
		closing(t, j)
		put(t, fileName(dir, 2, logSuffix), unborn)
		j = opening(t, Options{Dir: dir}, "first")
		add(t, j, "second")
		closing(t, j)
		opening(t, Options{Dir: dir}, "first", "second")
	}
}

// A file of another journal under the name of ours, or of another version, is
// not taken for ours.
func TestForeignFilesAreReported(t *testing.T) {
	first, seventh := newHeader(1, 0), newHeader(7, 0)
	later := first.bytes()
	later[len(magic)-1]++
	for name, b := range map[string][]byte{"version": append(later, 1, 2, 3), "generation": append(seventh.bytes(), 1, 2, 3)} {
		dir := t.TempDir()
		put(t, fileName(dir, 1, logSuffix), b)
		_, _, err := Open(Options{Dir: dir}, func([]byte) error { return nil })
		if _, ok := errors.AsType[*DamageError](err); !ok {
			t.Errorf("%s: got error %v, want damage", name, err)
		}
	}
}
