package proxy

import (
	"bytes"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// recordedDialects are the recorded streams, and the dialect of each.
func recordedDialects(t *testing.T) map[string]*dialect.Dialect {
	t.Helper()
	raw, err := os.ReadFile("dialect/testdata/facts.json")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*dialect.Dialect{}
	for name, known := range testkit.Decode[map[string]struct{ Dialect string }](t, raw) {
		d, ok := dialect.Lookup(known.Dialect)
		if !ok {
			t.Fatalf("%s: no dialect %q", name, known.Dialect)
		}
		found[name] = d
	}
	return found
}

// logged are the frames of a recording as a run stores them.
func logged(t *testing.T, d *dialect.Dialect, name string) (frames [][]byte) {
	t.Helper()
	cutter, sink := frame.New(d.Kind, 0), frame.Sink{Frame: func(f *frame.Frame) error {
		frames = append(frames, appendStored(nil, d.Kind, d, f))
		return nil
	}}
	if err := cutter.Cut(testkit.Recording(t, name), sink); err != nil {
		t.Fatal(err)
	}
	if err := cutter.End(sink, true); err != nil {
		t.Fatal(err)
	}
	return frames
}

// dispatched is a run of a new store that was sent upstream.
func dispatched(t *testing.T) (*embeddedstore.Store, runregistry.Lease) {
	t.Helper()
	store := embeddedstore.New(embeddedstore.Options{})
	t.Cleanup(store.Close)
	d, err := store.Admit(t.Context(), &runregistry.Admission{
		Run: runregistry.NewRunID(0), Conversation: "c", Retention: runregistry.Retention{Frames: time.Hour, Record: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Watch.Close()
	if _, err := store.Intend(t.Context(), d.Lease); err != nil {
		t.Fatal(err)
	}
	return store, d.Lease
}

// TestAnHeirFoldsWhatTheOwnerStored: after every frame of every recording the
// owner stores its snapshot and dies; who takes the run over then replays the
// stored frames, and has the very same one.
func TestAnHeirFoldsWhatTheOwnerStored(t *testing.T) {
	t.Parallel()
	for name, d := range recordedDialects(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, lease := dispatched(t)
			owner, silent := newFolding(d, d.Kind), newFolding(d, d.Kind)
			frames := logged(t, d, name)
			for i, data := range frames {
				last := runregistry.Seq(i + 1)
				appendTo(t, store, lease, &runregistry.Batch{After: last - 1, Frames: [][]byte{data}})
				if err := owner.catchUp(t.Context(), store, lease.Run, last); err != nil {
					t.Fatal(err)
				}
				told := owner.json()
				appendTo(t, store, lease, &runregistry.Batch{After: last, Progress: &runregistry.Progress{Snapshot: told, SnapshotSeq: last}})
				rec, err := store.Load(t.Context(), lease.Run)
				if err != nil || rec.SnapshotSeq != last || !bytes.Equal(rec.Snapshot, told) {
					t.Fatalf("after frame %d: got the snapshot %s of %d (%v)", last, rec.Snapshot, rec.SnapshotSeq, err)
				}
				heir := silent // long streams are not read from the beginning each time, but by one that never tells
				if len(frames) <= 64 {
					heir = newFolding(d, d.Kind)
				}
				if err := heir.catchUp(t.Context(), store, lease.Run, last); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(heir.folder, owner.folder) || heir.holed {
					t.Fatalf("after frame %d: got state %+v, want %+v", last, heir.folder, owner.folder)
				}
				if heir != silent && !bytes.Equal(heir.json(), rec.Snapshot) {
					t.Fatalf("after frame %d: got %s, want %s", last, heir.json(), rec.Snapshot)
				}
			}
		})
	}
}

func appendTo(t *testing.T, store runregistry.Store, lease runregistry.Lease, b *runregistry.Batch) {
	t.Helper()
	if _, err := store.Append(t.Context(), lease, b); err != nil {
		t.Fatal(err)
	}
}
