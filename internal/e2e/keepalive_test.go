package e2e

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// keepalive is what silence becomes on the wire: a comment and ONE line feed.
const keepalive = ": keepalive\n"

// TestCase42KeepaliveNeverSplits lets upstream go on, with a frame or with the
// next part of one, only after both clients were kept alive twice.
func TestCase42KeepaliveNeverSplits(t *testing.T) {
	t.Parallel()
	const name = "42-keepalive-never-splits-and-old-sdks-survive"
	want := testkit.Decode[map[string]json.RawMessage](t, caseBytes(t, name, "expect.json"))
	for _, wire := range []string{"slow-frames", "slow-lines"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			frames := testkit.Decode[[]testkit.Pair](t, want[wire])
			script := caseScript(t, name, wire+".jsonl")
			gate := make(chan struct{})
			c, _ := on(t, siteKeepalive, script.Gated(gate))
			a := c.Do(t, generate("")).Want(200)
			readers := []*rawReader{{answer: a}, {answer: c.Resume(t, a.Run(), "").Want(200)}}
			for _, op := range script {
				if op.Do != testkit.DoWait {
					continue
				}
				for _, r := range readers {
					r.untilKeptAlive(t, 2)
				}
				gate <- struct{}{}
			}
			for i, r := range readers {
				events := r.rest(t)
				testkit.CheckIDs(t, a.Run(), 1, events)
				wantPairs(t, events, frames)
				checkQuiet(t, a.Run(), r.raw, i == 1)
			}
		})
	}
}

// rawReader keeps the bytes of an answer as they come.
type rawReader struct {
	answer *testkit.Answer
	raw    []byte
}

// untilKeptAlive reads until n more keepalives are there.
func (r *rawReader) untilKeptAlive(t *testing.T, n int) {
	t.Helper()
	want := bytes.Count(r.raw, []byte(keepalive)) + n
	for bytes.Count(r.raw, []byte(keepalive)) < want {
		piece := make([]byte, 4096)
		got, err := r.answer.Read(piece)
		r.raw = append(r.raw, piece[:got]...)
		if err != nil {
			t.Fatalf("stream ended with %v after %.300q", err, r.raw)
		}
	}
}

// rest reads to the end and returns all events.
func (r *rawReader) rest(t *testing.T) []testkit.Event {
	t.Helper()
	r.raw = append(r.raw, r.answer.Body()...)
	events, err := testkit.NewEventReader(bytes.NewReader(r.raw)).All()
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// checkQuiet looks at the bytes of a stream with silences in it: between its
// blocks stand keepalives and nothing else, and every block has an id of ours
// and data.
func checkQuiet(t *testing.T, run string, raw []byte, control bool) {
	t.Helper()
	block := regexp.MustCompile(`^id: ` + regexp.QuoteMeta(run) + `\.[0-9]+\n(?:event: [^\n]+\n)?(?:data: [^\n]*\n)+\n`)
	if control {
		// The retry hint stands inside the first block.
		if !regexp.MustCompile(`^(?:: keepalive\n)*retry: [0-9]+\nid: `).Match(raw) {
			t.Errorf("stream does not begin with a retry field in its first block: %.200q", raw)
		}
		raw = regexp.MustCompile(`retry: [0-9]+\n`).ReplaceAll(raw, nil)
	}
	if n := stickyReaderEmptyEvents(raw); n != 0 {
		t.Errorf("an old SDK reads %d empty events, want 0", n)
	}
	for len(raw) > 0 {
		if rest, ok := bytes.CutPrefix(raw, []byte(keepalive)); ok {
			raw = rest
			continue
		}
		found := block.Find(raw)
		if found == nil {
			t.Fatalf("neither a keepalive nor a block of ours: %.200q", raw)
		}
		raw = raw[len(found):]
	}
}

// stickyReaderEmptyEvents imitates SDKs that dispatch on every blank line once
// they have seen an id, and counts the events without data that they would try
// to parse.
func stickyReaderEmptyEvents(raw []byte) int {
	empty, data, pending := 0, 0, false
	for line := range bytes.Lines(raw) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
			if pending && data == 0 {
				empty++
			}
			data = 0
		case bytes.HasPrefix(line, []byte("data:")):
			data, pending = data+1, true
		case !bytes.HasPrefix(line, []byte(":")):
			pending = true // an id or a name sticks
		}
	}
	return empty
}

func TestTheStickyReaderFindsWhatItImitates(t *testing.T) {
	for in, want := range map[string]int{
		"id: 1\ndata: a\n\n: keepalive\nid: 2\ndata: b\n\n":   0,
		"id: 1\ndata: a\n\n: keepalive\n\nid: 2\ndata: b\n\n": 1,
		"retry: 1\n\ndata: a\n\n":                             1,
	} {
		if got := stickyReaderEmptyEvents([]byte(in)); got != want {
			t.Errorf("%q: got %d empty events, want %d", in, got, want)
		}
	}
}
