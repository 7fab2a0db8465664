package e2e

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// keepalive is what silence becomes on the wire: a comment and ONE line feed.
const keepalive = ": keepalive\n"

func TestCase42KeepaliveNeverSplits(t *testing.T) {
	t.Parallel()
	const name = "42-keepalive-never-splits-and-old-sdks-survive"
	want := expected[map[string]any](t, name)
	for _, wire := range []string{"slow-frames", "slow-lines"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			// The case has silences of 3.5 times the keepalive; so has this.
			c, _ := on(t, siteKeepalive, caseScript(t, name, wire+".jsonl").Scaled(0.2))
			a := c.Do(t, generate("")).Want(200)
			back := c.Resume(t, a.Run(), "").Want(200)
			events := a.Rest()
			for i, pair := range want[wire].([]any) {
				if got := fmt.Sprint(events[i].Name, " ", events[i].Data); got != fmt.Sprint(pair.([]any)[0], " ", pair.([]any)[1]) {
					t.Errorf("event %d is %s, want %v", i, got, pair)
				}
			}
			replay := back.Rest()
			wantPairs(t, replay, testkit.Pairs(events))
			checkQuiet(t, a.Run(), a.Events.Raw(), false)
			checkQuiet(t, a.Run(), back.Events.Raw(), true)
		})
	}
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
	signs := 0
	for len(raw) > 0 {
		if rest, ok := bytes.CutPrefix(raw, []byte(keepalive)); ok {
			raw, signs = rest, signs+1
			continue
		}
		found := block.Find(raw)
		if found == nil {
			t.Fatalf("neither a keepalive nor a block of ours: %.200q", raw)
		}
		raw = raw[len(found):]
	}
	if signs < 3 {
		t.Errorf("got %d keepalives in several long silences, want more", signs)
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
