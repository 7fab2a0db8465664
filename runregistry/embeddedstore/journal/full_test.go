package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/journal/smalldisk"
)

const testReserve = 10_000

func TestOnAFullDiskAReserveServesWhatRuns(t *testing.T) {
	dir := t.TempDir()
	disk := smalldisk.New(dir)
	j := opening(t, Options{Dir: dir, Reserve: testReserve, Create: on(disk)})
	add(t, j, "before")
	disk.Fill(3)
	if _, err := j.Append(New, say("new")); !errors.Is(err, ErrFull) {
		t.Fatalf("got error %v for what is new, want %v", err, ErrFull)
	}
	if err := j.Ailing(); err != nil {
		t.Fatalf("got %v although the reserve is whole", err)
	}
	want := []string{"before"}
	for record := strings.Repeat("r", 92); ; {
		if _, err := j.Append(Running, say(record)); err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatalf("got error %v beyond the reserve, want %v", err, ErrFull)
			}
			break
		}
		want = append(want, record)
		if _, err := j.Append(New, say("new")); !errors.Is(err, ErrFull) {
			t.Fatalf("got error %v for what is new, want %v", err, ErrFull)
		}
	}
	if n := len(want) - 1; n != testReserve/100 {
		t.Errorf("got %d records of 100 bytes into a reserve of %d", n, testReserve)
	}
	opening(t, Options{Dir: crashed(t, dir)}, want...)

	disk.Fill(testReserve - 1)
	if err := j.Mend(); !errors.Is(err, ErrFull) || !errors.Is(j.Ailing(), ErrFull) {
		t.Errorf("got error %v without room for a reserve, want %v", err, ErrFull)
	}
	disk.Empty()
	if err := errors.Join(j.Mend(), j.Ailing()); err != nil {
		t.Fatalf("got error %v with room again", err)
	}
	if _, err := j.Append(New, say("new")); err != nil {
		t.Errorf("got error %v with room again", err)
	}
	closing(t, j)
	opening(t, Options{Dir: dir}, append(want, "new")...)
}

// A record that found no room leaves nothing behind, however much of it was
// written.
func TestARecordThatHasNoRoomLeavesNothing(t *testing.T) {
	for free := range int64(prefixSize + 11) {
		dir := t.TempDir()
		disk := smalldisk.New(dir)
		j := opening(t, Options{Dir: dir, Create: on(disk)})
		add(t, j, "first")
		disk.Fill(free)
		if _, err := j.Append(Running, say("hello world!")); !errors.Is(err, ErrFull) {
			t.Fatalf("%d bytes free: got error %v, want %v", free, err, ErrFull)
		}
		disk.Empty()
		add(t, j, "second")
		_, got, found := reading(t, Options{Dir: crashed(t, dir)})
		if !slices.Equal(got, []string{"first", "second"}) || found.Cut != 0 {
			t.Errorf("%d bytes free: got records %q, %d bytes cut", free, got, found.Cut)
		}
	}
}

func TestAFullDiskIsOpenedWithTheReserve(t *testing.T) {
	dir := t.TempDir()
	disk := smalldisk.New(dir)
	o := Options{Dir: dir, Reserve: testReserve, Create: on(disk)}
	j := opening(t, o)
	add(t, j, "first")
	closing(t, j)
	disk.Fill(headerSize - 1)
	j = opening(t, o, "first")
	if err := j.Ailing(); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want %v", err, ErrFull)
	}
	add(t, j, "second")
	closing(t, j)

	disk.Fill(0)
	if _, _, err := Open(Options{Dir: dir, Create: on(disk)}, func([]byte) error { return nil }); err == nil {
		t.Error("got a journal without room for its log")
	}
	disk.Empty()
	j = opening(t, o, "first", "second")
	if info, err := os.Stat(filepath.Join(dir, reserveName)); err != nil || info.Size() != testReserve {
		t.Errorf("got no whole reserve (%v)", err)
	}
	if err := j.Ailing(); err != nil {
		t.Errorf("got %v after opening with room", err)
	}
}

// Linux tells once that pages could not be written, and forgets them.
func TestAFailedSyncIsNotForgotten(t *testing.T) {
	dir := t.TempDir()
	disk := smalldisk.New(dir)
	j := opening(t, Options{Dir: dir, Create: on(disk)})
	at := add(t, j, "first")
	broken := errors.New("broken")
	disk.FailSync(broken)
	if err := j.Sync(at); !errors.Is(err, ErrSick) || !errors.Is(err, broken) {
		t.Fatalf("got error %v, want %v", err, ErrSick)
	}
	if err := j.Rewrite(func(w *Writer) error { return w.Write(say("first")) }); err == nil {
		t.Error("got a rewrite on a broken disk")
	}
	disk.FailSync(nil)
	if err := j.Sync(at); !errors.Is(err, ErrSick) {
		t.Errorf("got error %v from a sync that succeeded later, want %v", err, ErrSick)
	}
	if _, err := j.Append(New, say("new")); !errors.Is(err, ErrSick) || !errors.Is(j.Ailing(), ErrSick) {
		t.Errorf("got error %v for what is new, want %v", err, ErrSick)
	}
	at = add(t, j, "second") // what runs only needs the system to take it
	if err := j.Rewrite(func(w *Writer) error { return errors.Join(w.Write(say("first")), w.Write(say("second"))) }); err != nil {
		t.Fatalf("got error %v from a rewrite, want it cured", err)
	}
	if err := errors.Join(j.Sync(at), j.Ailing(), j.Sync(add(t, j, "third"))); err != nil {
		t.Errorf("got error %v after the cure", err)
	}
	closing(t, j)
	opening(t, Options{Dir: dir}, "first", "second", "third")
}

// What a sick log lost may lie before records of the next one.
func TestALogAfterASickOneMayFollowATornOne(t *testing.T) {
	dir := t.TempDir()
	disk := smalldisk.New(dir)
	j := opening(t, Options{Dir: dir, Create: on(disk)})
	add(t, j, "first", "second")
	sick := only(t, dir, "*.log")
	disk.FailSync(errors.New("broken"))
	if err := j.Sync(add(t, j, "third")); err == nil {
		t.Fatal("got a sync on a broken disk")
	}
	disk.FailSync(nil)
	no := errors.New("no base")
	if err := j.Rewrite(func(*Writer) error { return no }); !errors.Is(err, no) {
		t.Fatalf("got error %v, want %v", err, no)
	}
	add(t, j, "fourth")
	b := contents(t, sick)
	copied := crashed(t, dir)
	put(t, filepath.Join(copied, filepath.Base(sick)), b[:len(b)-3])
	opening(t, Options{Dir: copied}, "first", "second", "fourth")
}
