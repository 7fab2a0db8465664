package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestAnExpiredStreamSaysWhereToLook comes back after the frames are gone.
func TestAnExpiredStreamSaysWhereToLook(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Global: "frame_retention 1s", Sites: map[string]string{"": testkit.Site(u.Addr())}})
	stage := u.Stage(caseScript(t, "27-retry-attaches", "upstream.jsonl").Scaled(0))
	c := g.Client("").As("user-a").On(stage)
	keyed := testkit.Chat("conv-1", "go").Key("k-1")
	a := c.Do(t, keyed).Want(200)
	live := a.Rest()

	var expired []testkit.Event
	testkit.Eventually(t, "the end of the frames", func() bool {
		expired = c.Resume(t, a.Run(), live[2].ID).Want(200).Rest()
		return expired[0].Name == "stream_expired"
	})
	if len(expired) != 1 {
		t.Fatalf("got %d events, want stream_expired alone", len(expired))
	}
	data := testkit.Decode[testkit.Terminal](t, []byte(expired[0].Data))
	if data.RunID != a.Run() || data.ConversationID != "conv-1" || data.Reason != "retention" || data.State != "completed" {
		t.Errorf("got %s, want the run, its conversation, retention and completed", expired[0].Data)
	}
	if data.RequestedSeq == nil || *data.RequestedSeq != 4 && *data.RequestedSeq != 3 || data.FinalSeq == nil || *data.FinalSeq != 12 {
		t.Errorf("got %s, want what was asked for and final_seq 12", expired[0].Data)
	}
	if want := testkit.Cursor(a.Run(), 12); expired[0].ID != want {
		t.Errorf("stream_expired has id %q, want %q", expired[0].ID, want)
	}
	c.Resume(t, a.Run(), expired[0].ID).Want(204)

	rec := c.Snapshot(t, a.Run())
	if rec.Snapshot == nil || !strings.HasPrefix(rec.Snapshot.Text, "tok1 tok2 ") || !strings.HasSuffix(rec.Snapshot.Text, "tok10 ") || !rec.Snapshot.Complete {
		t.Errorf("got snapshot %+v, want the whole answer", rec.Snapshot)
	}
	var link string
	if err := jsonString(data.Snapshot, &link); err != nil || c.Do(t, testkit.Ask{Path: link}).Status != 200 {
		t.Errorf("the link %s does not lead to the snapshot (%v)", data.Snapshot, err)
	}
	p := c.Do(t, keyed).Problem(http.StatusGone, "stream_expired")
	if p.RunID != a.Run() || stage.Starts() != 1 {
		t.Errorf("the keyed retry names run %q after %d upstream calls, want %s and 1", p.RunID, stage.Starts(), a.Run())
	}
}
