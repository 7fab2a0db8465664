package proxy_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/faultstore"
)

// replayed folds what a reader gets into a snapshot.
func replayed(t *testing.T, s *site, run, name string) dialect.Snapshot {
	t.Helper()
	d, _ := dialect.Lookup(name)
	folder := d.NewFolder()
	events := s.Do(t, own(run, "").Query("follow", "off")).Want(http.StatusOK).Rest()
	for i, e := range events {
		var f frame.Frame
		block := frame.AppendEvent(nil, map[bool]string{true: e.Name}[e.Name != "message"], []byte(e.Data))
		frame.Parse(frame.SSE, block, &f)
		folder.Fold(uint64(i)+1, &f)
	}
	return folder.Snapshot()
}

// snapshotOf is the raw snapshot of a record.
func snapshotOf(t *testing.T, s *site, run string) dialect.Snapshot {
	t.Helper()
	type record struct {
		Snapshot dialect.Snapshot `json:"snapshot"`
	}
	return testkit.Decode[record](t, s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Want(http.StatusOK).Body()).Snapshot
}

// toolCall is a chunk that asks for a tool.
const toolCall = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"send_mail","arguments":"{}"}}]}}]}` + "\n\n"

// TestASnapshotEqualsAReplay at every moment of a run, whether it was stored or
// is folded for the request.
func TestASnapshotEqualsAReplay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		pieces := []string{chatFrame("a"), chatFrame("b"), toolCall, chatFrame("c"), finish("tool_calls"), chatDone}
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for _, p := range pieces {
				if say(w, p) != nil || pause(r, 20*time.Second) != nil {
					hangUp()
				}
			}
			return nil
		}, openaiChat)
		started := s.Do(t, startChat())
		listens(started)
		run := started.Run()
		for i := range pieces {
			time.Sleep(time.Second)
			same(t, "at frame "+itoa(i+1), snapshotOf(t, s, run), replayed(t, s, run, "openai-chat"), false)
			time.Sleep(19 * time.Second)
		}
		if got := s.state(t, run); got != "completed" {
			t.Fatalf("got %s", got)
		}
		want := replayed(t, s, run, "openai-chat")
		same(t, "at the end", snapshotOf(t, s, run), want, true)
		if want.Text != "abc" || *want.FinishReason != "tool_calls" || len(want.Unresolved) != 1 || want.Unresolved[0].Name != "send_mail" {
			t.Errorf("got %+v", want)
		}
	})
}

func same(t *testing.T, when string, got, want dialect.Snapshot, complete bool) {
	t.Helper()
	want.Complete = complete
	a, b := marshal(t, got), marshal(t, want)
	if a != b {
		t.Errorf("%s: got %s, want %s", when, a, b)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestALongRunIsFoldedEveryHalfMinute, so that what is trimmed afterwards is
// still in its snapshot.
func TestALongRunIsFoldedEveryHalfMinute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var pieces []string
		for i := range 100 {
			pieces = append(pieces, chatFrame(string(rune('a'+i%26))))
		}
		s := newSite(t, paced(time.Second, pieces...), openaiChat, keptFrames(60))
		started := s.Do(t, startChat())
		listens(started)
		time.Sleep(95 * time.Second)
		rec, err := s.store.Load(t.Context(), runID(started.Run()))
		if err != nil || rec.SnapshotSeq < 85 || rec.FirstSeq < 30 {
			t.Fatalf("the stored snapshot covers %d, the log begins at %d (%v)", rec.SnapshotSeq, rec.FirstSeq, err)
		}
		snapshot := snapshotOf(t, s, started.Run())
		if want := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 4)[:int(rec.SnapshotSeq)]; !strings.HasPrefix(snapshot.Text, want) || snapshot.Truncated {
			t.Errorf("got %q, truncated %v, want at least %q", snapshot.Text, snapshot.Truncated, want)
		}
	})
}

// TestFoldingIsLazy: a run that nobody asks about folds at its checkpoints and
// its end alone.
func TestFoldingIsLazy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, paced(time.Second, repeated(chatFrame("a"), 29)...), openaiChat)
		s.Do(t, startChat()).Drop()
		time.Sleep(time.Second)
		before := faults.Calls(faultstore.Read)
		time.Sleep(25 * time.Second)
		if got := faults.Calls(faultstore.Read) - before; got != 0 {
			t.Errorf("got %d reads of a log that nobody reads", got)
		}
		time.Sleep(10 * time.Second)
		if got := faults.Calls(faultstore.Read) - before; got != 1 {
			t.Errorf("got %d reads, want one for the checkpoint", got)
		}
	})
}

func repeated(piece string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = piece
	}
	return all
}

// TestTheSnapshotOfAPlainAnswerIsEmpty: there is nothing to fold.
func TestTheSnapshotOfAPlainAnswerIsEmpty(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, answers(http.StatusOK, jsonType, `{"choices":[]}`))
		run := s.ran(t, startChat().Key("k-1"))
		if got := snapshotOf(t, s, run); got.Text != "" || got.ToolReceipts == nil || got.Unresolved == nil {
			t.Errorf("got %+v", got)
		}
		rec, err := s.store.Load(t.Context(), runID(run))
		if err != nil || rec.State != runregistry.Completed || rec.Snapshot != nil {
			t.Errorf("got %s with snapshot %s", rec.State, rec.Snapshot)
		}
	})
}
