package entry

import (
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// teller writes down again what it hears.
type teller struct {
	b      []byte
	frames []runregistry.Frame
	total  int // what was heard, in elements
}

func (w *teller) Start(s *Start) { w.b = AppendStart(w.b, s); w.total++ }
func (w *teller) Record(r Run, rec *runregistry.Record) {
	w.b = AppendRecord(w.b, r, rec)
	w.total += 1 + len(rec.Aliases)
}
func (w *teller) Ties(r Run, t Ties)       { w.b = AppendTies(w.b, r, t); w.total++ }
func (w *teller) Snapshot(r Run, b []byte) { w.b = AppendSnapshot(w.b, r, b); w.total++ }

func (w *teller) Delivery(r Run, d runregistry.Delivery) { w.b = AppendDelivery(w.b, r, d); w.total++ }
func (w *teller) Gone(r Run)                             { w.b = AppendGone(w.b, r); w.total++ }
func (w *teller) Key(k *Key)                             { w.b = AppendKey(w.b, k); w.total++ }
func (w *teller) Frame(_ Run, f runregistry.Frame)       { w.frames = append(w.frames, f); w.total++ }

func (w *teller) Frames(r Run) {
	if len(w.frames) > 0 {
		w.b = AppendPage(w.b, r, w.frames)
	}
	w.frames = nil
}

// The law: what is read means the same when it is written again and read
// again, and it is never more than its bytes can say.
func FuzzReadingTwiceIsReadingOnce(f *testing.F) {
	rec := &runregistry.Record{
		ID: "run_x", Aliases: []runregistry.ConversationID{"a", "b"}, CreatedAt: time.Unix(1, 2),
		Response: &runregistry.Response{Status: 200, Header: map[string][]string{"A": {"b", "c"}}},
	}
	f.Add(AppendRecord(nil, 1, rec))
	f.Add(AppendStart(nil, &Start{Run: 1, Key: runregistry.Digest{1}, Record: *rec}))
	f.Add(AppendFrames(nil, 1, 2, time.Unix(3, 4), [][]byte{[]byte("data: x\n\n"), nil}))
	f.Add(AppendKey(AppendGone(AppendDelivery(AppendTies(AppendSnapshot(nil, 1, []byte("{}")), 1, Ties{true, 1}), 1, rec.Delivery), 1), &Key{Route: "r"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second, third teller
		if Read(b, &first) != nil {
			return
		}
		if first.total > len(b) {
			t.Errorf("got %d elements from %d bytes", first.total, len(b))
		}
		if err := Read(first.b, &second); err != nil {
			t.Fatalf("got error %v from what was written again", err)
		}
		if err := Read(second.b, &third); err != nil {
			t.Fatalf("got error %v from what was written again twice", err)
		}
		// The fields of a header come in no order, so only their size is compared.
		if len(second.b) != len(first.b) || len(third.b) != len(first.b) || second.total != first.total {
			t.Errorf("got %d and %d bytes, want %d", len(second.b), len(third.b), len(first.b))
		}
	})
}
