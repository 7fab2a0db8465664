package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// variant is one wire of a framing case and where it is cut: at the given
// offsets, "each" byte, or "all2": in two, once at every offset.
type variant struct {
	Cuts   json.RawMessage
	Frames []testkit.Pair
}

// splits returns the cuts of a wire, each a way to send it.
func (v *variant) splits(t *testing.T, wire []byte) [][]int {
	t.Helper()
	var offsets []int
	switch string(v.Cuts) {
	case `"each"`:
		for i := 1; i < len(wire); i++ {
			offsets = append(offsets, i)
		}
		return [][]int{offsets}
	case `"all2"`:
		var all [][]int
		for i := 1; i < len(wire); i++ {
			all = append(all, []int{i})
		}
		return all
	}
	return [][]int{testkit.Decode[[]int](t, v.Cuts)}
}

func TestCase35CRLFSplit(t *testing.T)        { framingCase(t, "35-crlf-split") }
func TestCase37ByteOrderMark(t *testing.T)    { framingCase(t, "37-byte-order-mark") }
func TestCase38UTF8Split(t *testing.T)        { framingCase(t, "38-utf8-split") }
func TestCase41UpstreamComments(t *testing.T) { framingCase(t, "41-upstream-comments-are-not-frames") }

// framingCase sends each wire of a case in each of its cuts. However it
// arrives, the client and a later one read the same frames.
func framingCase(t *testing.T, name string) {
	t.Parallel()
	for wire, v := range expected[struct{ Variants map[string]*variant }](t, name).Variants {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			raw := caseBytes(t, name, "wire-"+wire+".bin")
			splits := v.splits(t, raw)
			testkit.Each(t, len(splits), 4, func(t *testing.T, i int) {
				c, _ := on(t, siteGeneric, testkit.Pieces("text/event-stream", raw, splits[i]...))
				a := c.Do(t, generate("")).Want(200)
				checkFrames(t, a, a.Run(), v.Frames)
				again := c.Resume(t, a.Run(), "").Want(200)
				checkFrames(t, again, a.Run(), v.Frames)
			})
		})
	}
}

// checkFrames reads an answer and compares its frames; nothing of upstream's
// comments may be left in its bytes.
func checkFrames(t *testing.T, a *testkit.Answer, run string, want []testkit.Pair) {
	t.Helper()
	events := a.Rest()
	testkit.CheckIDs(t, run, 1, events)
	wantPairs(t, events, want)
	for _, c := range a.Events.Comments {
		if c.Text != " keepalive" {
			t.Errorf("got comment %q, want none of upstream's", c.Text)
		}
	}
}

// longLine is a payload of case 39.
func longLine(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }

func TestCase39LongLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes  int
		sha256 string
	}{
		"64 KiB and 1": {65537, "07e298dc14638c2582d6a5ea6d961c44d2ccb6ecf071a150d7ae4efce9d1e902"},
		"1 MiB and 1":  {1048577, "5698254d75f15625da3fa7bac71cab0bd4fddc8a4eba91ad13ae2dfaf4f4098c"},
		"4 MiB":        {4194304, "3cab7815c40973b8fb036c7a2a69b3649882622a4a0a2f1a980efa4ef8545577"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := on(t, siteGeneric, testkit.SSE("data: before\n\ndata: "+longLine(c.bytes)+"\n\ndata: after\n\n"))
			a := client.Do(t, generate("")).Want(200)
			events := a.Rest()
			testkit.CheckIDs(t, a.Run(), 1, events)
			tail := client.Resume(t, a.Run(), events[0].ID).Want(200).Rest()
			for _, got := range [][]testkit.Event{events[1:], testkit.Content(tail)} {
				if len(got) != 2 || got[1].Data != "after" {
					t.Fatalf("got %d frames after the first, want the long one and after", len(got))
				}
				sum := sha256.Sum256([]byte(got[0].Data))
				if len(got[0].Data) != c.bytes || hex.EncodeToString(sum[:]) != c.sha256 {
					t.Errorf("got %d bytes with hash %x, want %d with %s", len(got[0].Data), sum, c.bytes, c.sha256)
				}
			}
		})
	}
}

func TestCase39AFrameAboveTheLimitEndsTheRun(t *testing.T) {
	t.Parallel()
	script := testkit.SSE("data: before\n\ndata: " + longLine(4<<20) + "\n\ndata: after\n\n")
	script = append(script[:len(script)-1], testkit.Hang()) // upstream does not end by itself
	c, stage := on(t, siteSmall, script)
	a := c.Do(t, generate("")).Want(200)
	wantPairs(t, a.RestBroken(), []testkit.Pair{{"message", "before"}})
	stage.Call(t, 1).AwaitClose(t)
	events := c.Resume(t, a.Run(), "").Want(200).Rest()
	testkit.CheckIDs(t, a.Run(), 1, events)
	wantPairs(t, events, []testkit.Pair{{"message", "before"}})
	if end := testkit.EndsAs(t, events, "failed"); end.StateReason == nil || *end.StateReason != "frame_too_large" {
		t.Errorf("run.end is %s, want the reason frame_too_large", events[len(events)-1].Data)
	}
}

// TestCase39ManyLongLinesFitInMemory runs 32 runs with a frame of 4 MiB at
// once, in a program whose memory is its own.
func TestCase39ManyLongLinesFitInMemory(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	stage := u.Stage(testkit.SSE("data: before\n\ndata: " + longLine(4<<20) + "\n\ndata: after\n\n"))
	g := testkit.Start(t, testkit.Setup{Plain: true, Sites: map[string]string{"": genericSite(u.Addr())}})
	c := g.Client("").As("user-a").On(stage)
	together := testkit.NewBarrier(32)
	testkit.Each(t, 32, 32, func(t *testing.T, _ int) {
		together.Wait(t)
		if events := c.Do(t, generate("")).Want(200).Rest(); len(events) != 3 {
			t.Errorf("got %d frames, want 3", len(events))
		}
	})
	const limit = 1 << 30
	resident := g.Resident(t)
	t.Logf("%d MiB resident", resident>>20)
	if resident > limit {
		t.Errorf("gateway holds %d MiB, want at most %d", resident>>20, limit>>20)
	}
}

func TestCase44NDJSONChunking(t *testing.T) {
	t.Parallel()
	const name = "44-ndjson-chunking"
	wire := caseBytes(t, name, "wire.bin")
	frames := expected[struct{ Frames []string }](t, name).Frames
	// What is sent on are the lines as they came, without the blank one.
	want := bytes.Replace(wire, []byte("\n\n"), []byte("\n"), 1)
	bytewise := (&variant{Cuts: json.RawMessage(`"each"`)}).splits(t, wire)
	ways := slices.Concat([][]int{nil}, bytewise, (&variant{Cuts: json.RawMessage(`"all2"`)}).splits(t, wire))
	testkit.Each(t, len(ways), 4, func(t *testing.T, i int) {
		c, _ := on(t, siteAuto, testkit.Pieces("application/x-ndjson", wire, ways[i]...))
		a := c.Do(t, testkit.Ask{Path: "/api/chat", Body: `{"model":"m","messages":[{"role":"user","content":"go"}]}`}).Want(200)
		if got := a.Body(); !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if rec := c.Snapshot(t, a.Run()); rec.State != "completed" {
			t.Errorf("run is %s (%s), want completed", rec.State, rec.Reason())
		}
		checkLines(t, c, a.Run(), frames, want)
	})
}

// checkLines reads a line run in each of its forms, from the beginning and
// after its second line.
func checkLines(t *testing.T, c testkit.Client, run string, frames []string, want []byte) {
	t.Helper()
	own := c.Resume(t, run, "").Want(200)
	if got := own.Body(); !bytes.Equal(got, want) {
		t.Errorf("resume got %q, want %q", got, want)
	}
	afterTwo := bytes.SplitAfterN(want, []byte("\n"), 3)[2]
	if got := c.Resume(t, run, testkit.Cursor(run, 2)).Want(200).Body(); !bytes.Equal(got, afterTwo) {
		t.Errorf("resume after line 2 got %q, want %q", got, afterTwo)
	}
	events := c.Do(t, testkit.Resume(run, "").With("Accept", "text/event-stream")).Want(200).Rest()
	testkit.CheckIDs(t, run, 1, events)
	testkit.EndsAs(t, events, "completed")
	var pairs []testkit.Pair
	for _, line := range frames {
		pairs = append(pairs, testkit.Pair{"message", line})
	}
	wantPairs(t, events, pairs)
	page := testkit.Decode[testkit.Page](t, c.Do(t, testkit.Resume(run, "").With("Accept", "application/json")).Want(http.StatusOK).Body())
	for i, line := range frames {
		if i >= len(page.Events) || page.Events[i].Data != line || page.Events[i].EventID != testkit.Cursor(run, i+1) {
			t.Fatalf("page has %s, want line %d to be %q", fmt.Sprintf("%.300v", page.Events), i+1, line)
		}
	}
}
