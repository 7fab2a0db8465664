package dialect_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// members are the names and paths of which random tables and frames are made,
// so that one often speaks of the other.
var members = []string{"a", "b", "type", "text", "id", "error", "usage", "0", "1"}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func randomPath(r *rand.Rand) string {
	path := oneOf(r, members...)
	for r.IntN(2) == 0 {
		path += "." + oneOf(r, members...)
	}
	return path
}

// sometimes is a path, or none.
func sometimes(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return ""
	}
	return randomPath(r)
}

func somePaths(r *rand.Rand) (paths []string) {
	for range r.IntN(3) {
		paths = append(paths, randomPath(r))
	}
	return paths
}

func randomRule(r *rand.Rand) dialect.CustomRule {
	rule := dialect.CustomRule{
		Text: somePaths(r), Reasoning: somePaths(r), ID: sometimes(r), Conversation: sometimes(r), Model: sometimes(r),
		InputTokens: sometimes(r), OutputTokens: sometimes(r), Error: somePaths(r), Finish: somePaths(r),
	}
	if r.IntN(2) == 0 {
		rule.CallID, rule.CallName, rule.CallArguments, rule.Result = randomPath(r), sometimes(r), sometimes(r), sometimes(r)
	}
	return rule
}

func randomTable(r *rand.Rand) *dialect.Custom {
	meanings := []string{"completed", "length", "content_filter", "refusal", "input_required", "failed", "cancelled"}
	c := &dialect.Custom{
		Frames: oneOf(r, "", "sse", "lines"), Type: oneOf(r, "", "event", "type", "a.type"), CustomRule: randomRule(r),
		Done: oneOf(r, nil, []string{"[DONE]"}), Words: map[string]string{"a": oneOf(r, meanings...), "stop": oneOf(r, meanings...)},
		CleanEnd: r.IntN(2) == 0, IDs: oneOf(r, "", "off"), Failure: oneOf(r, "", `{"error":{message},"code":{code}}`),
	}
	c.Text = append(c.Text, randomPath(r))
	for range r.IntN(4) {
		c.On = append(c.On, dialect.CustomType{
			Types: []string{oneOf(r, members...)}, CustomRule: randomRule(r), End: r.IntN(4) == 0, Means: oneOf(r, append(meanings, "")...),
			Waiting: r.IntN(4) == 0, Resumes: r.IntN(4) == 0,
		})
	}
	return c
}

// randomValue is JSON, and now and then not quite.
func randomValue(r *rand.Rand, depth int) string {
	switch n := r.IntN(12); {
	case n < 4 && depth > 0:
		var all []string
		for range r.IntN(4) {
			all = append(all, strconv.Quote(oneOf(r, members...))+":"+randomValue(r, depth-1))
		}
		return "{" + strings.Join(all, ",") + oneOf(r, "}", "}", "}", "}", "}", "}", "")
	case n < 6 && depth > 0:
		return "[" + randomValue(r, depth-1) + "," + randomValue(r, depth-1) + "]"
	default:
		return oneOf(r, `"a"`, `"stop"`, `"error"`, `""`, `"\u0000\ud800"`, "1", "-1", "1e400", "null", "true", "false", `"x`, "\"\xff\"")
	}
}

func randomBody(r *rand.Rand, kind frame.Kind) []byte {
	var b bytes.Buffer
	for range r.IntN(12) {
		data := oneOf(r, randomValue(r, 3), randomValue(r, 3), randomValue(r, 3), "[DONE]", "")
		if kind == frame.SSE {
			if r.IntN(3) == 0 {
				b.WriteString("event: " + oneOf(r, members...) + "\n")
			}
			b.WriteString("data: " + data + "\n")
		} else {
			b.WriteString(data)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// FuzzCustomTables: whatever an operator writes that passes the check, and
// whatever a backend sends then, nothing panics, no byte is changed, memory is
// bounded by what came, no success follows an error, and a replay tells the
// same.
func FuzzCustomTables(f *testing.F) {
	for _, c := range []*dialect.Custom{&chatTable, &eventTable} {
		table, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(table, sse(chatDelta, stop("length"), chatError, "[DONE]"))
		f.Add(table, sse(`thought|{"text":"hm"}`, `call|{"id":"c","name":"f","input":"{"}`, `result|{"id":"c","output":"r"}`, `bye|{}`))
	}
	f.Fuzz(func(t *testing.T, table, body []byte) {
		var c dialect.Custom
		if json.Unmarshal(table, &c) != nil || len(c.Check()) > 0 {
			return
		}
		checkTable(t, c.Dialect(), body)
	})
}

// TestRandomTablesReadRandomStreams: as above, of tables and frames that have
// much to do with each other.
func TestRandomTablesReadRandomStreams(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := randomTable(r)
		if c.Frames == "lines" {
			c.Type = oneOf(r, "", "type")
		}
		found := c.Check()
		if found != nil {
			t.Fatalf("seed %d: got mistakes %+v", seed, found)
		}
		d := c.Dialect()
		s, snap := checkTable(t, d, randomBody(r, d.Kind))
		seen[s.state(d)]++
		seen["text"] += min(1, len(snap.Text))
		seen["receipts"] += min(1, len(snap.ToolReceipts))
		seen["calls"] += min(1, len(snap.Unresolved))
		if t.Failed() {
			t.Fatalf("seed %d: with %+v", seed, c)
		}
	}
	for _, what := range []string{"completed", "failed", "cancelled", "truncated", "text", "receipts", "calls"} {
		if seen[what] < 5 {
			t.Errorf("got %s in %d streams, want it in some", what, seen[what])
		}
	}
}

// TestRandomTablesReadRecordings as any other stream.
func TestRandomTablesReadRecordings(t *testing.T) {
	t.Parallel()
	seed := uint64(0)
	for name := range streams(t) {
		seed++
		r := rand.New(rand.NewPCG(seed, 2))
		body := testkit.Recording(t, name)
		checkTable(t, randomTable(r).Dialect(), body[:min(len(body), 60_000)])
	}
}

func checkTable(t *testing.T, d *dialect.Dialect, body []byte) (s story, snap dialect.Snapshot) {
	t.Helper()
	raw, clean := pieces(t, d.Kind, body, 0)
	frames := parsed(d.Kind, raw)
	reader, again := d.NewReader(), d.NewReader()
	over := false
	for i := range frames {
		facts := reader.Read(&frames[i])
		s.add(facts)
		if second := again.Read(&frames[i]); !reflect.DeepEqual(facts, second) {
			t.Errorf("frame %d: got %+v and %+v", i+1, facts, second)
		}
		if over && facts.Outcome == dialect.OutcomeCompleted {
			t.Errorf("frame %d: got success after an error in %q", i+1, body)
		}
		over = over || facts.Outcome == dialect.OutcomeFailed || facts.Outcome == dialect.OutcomeCancelled
		d.Type(&frames[i])
		d.PositionOf(&frames[i])
		if !bytes.Equal(frames[i].Raw, raw[i]) || !bytes.Equal(frames[i].Clean, clean[i]) {
			t.Errorf("frame %d was changed", i+1)
		}
	}
	snap = foldParsed(d, frames)
	checkSize(t, d.Name, snap, 4*len(body)) // each path may be text, reasoning, arguments and a result
	if !reflect.DeepEqual(snap, foldParsed(d, parsed(d.Kind, clean))) {
		t.Errorf("got another snapshot from the stored frames")
	}
	for _, code := range codes {
		for _, b := range d.Failure(dialect.Failure{Code: code, Message: evil}) {
			only(t, d, b)
		}
	}
	return s, snap
}
