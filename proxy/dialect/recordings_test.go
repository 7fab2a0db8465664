package dialect_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

var update = flag.Bool("update", false, "write testdata/facts.json anew")

const factsFile = "testdata/facts.json"

// facts are what is known of one recording: nothing of its text but length and
// hash.
type facts struct {
	Dialect   string         `json:"dialect"`
	ByFrame   string         `json:"by_frame"` // the dialect by the first frame alone
	Frames    int            `json:"frames"`
	State     string         `json:"state"`
	Reason    string         `json:"reason,omitempty"`
	Marker    bool           `json:"marker"`
	ID        string         `json:"id,omitempty"`
	Thread    string         `json:"conversation,omitempty"`
	Model     string         `json:"model,omitempty"`
	Usage     []any          `json:"usage,omitempty"`
	Observed  []string       `json:"observed,omitempty"`
	Text      digest         `json:"text"`
	Reasoning *digest        `json:"reasoning,omitempty"`
	Finish    *string        `json:"finish_reason,omitempty"`
	Receipts  []receiptFact  `json:"receipts,omitempty"`
	Open      []callFact     `json:"unresolved,omitempty"`
	Error     *errorFact     `json:"error,omitempty"`
	Types     map[string]int `json:"types"`
}

type digest struct {
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type receiptFact struct {
	Seq    uint64  `json:"seq"`
	Call   string  `json:"call"`
	Name   string  `json:"name"`
	Status string  `json:"status"`
	Result *digest `json:"result"`
}

type callFact struct {
	Seq       uint64 `json:"seq"`
	Call      string `json:"call"`
	Name      string `json:"name"`
	Arguments digest `json:"arguments"`
}

type errorFact struct {
	Code    string `json:"code,omitempty"`
	Type    string `json:"type,omitempty"`
	Message digest `json:"message"`
}

func digestOf(s string) digest {
	sum := sha256.Sum256([]byte(s))
	return digest{Bytes: len(s), SHA256: hex.EncodeToString(sum[:])}
}

func digestOfOptional(s *string) *digest {
	if s == nil {
		return nil
	}
	return new(digestOf(*s))
}

// dialectOf is the dialect of a recording's folder.
var dialectOf = map[string]string{
	"openai-chat": "openai-chat", "openai-chat-compatible": "openai-chat", "openai-completions-legacy": "openai-completions",
	"azure-openai": "openai-chat", "vllm": "openai-chat", "llamacpp": "openai-chat",
	"openai-responses": "openai-responses", "openai-responses-compatible": "openai-responses",
	"anthropic-messages": "anthropic-messages", "gemini": "gemini", "ollama": "ollama",
	"vercel-ui-message-stream": "ai-ui-v1", "vercel-data-stream-v1": "ai-data-v1",
	"ag-ui": "ag-ui", "langgraph": "langgraph", "mcp-streamable-http": "mcp",
	"a2a": "a2a", "assistant-transport": "assistant-transport", "gemini-interactions": "gemini-interactions",
	"openai-assistants": "openai-assistants", "replicate": "replicate",
	"bedrock-converse": "bedrock", "bedrock-invoke": "bedrock",
}

// streams are the recordings, by name.
func streams(t testing.TB) map[string]*dialect.Dialect {
	t.Helper()
	root := testkit.RequireFixtures(t)
	found := map[string]*dialect.Dialect{}
	for folder, name := range dialectOf {
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if file := e.Name(); file != "MANIFEST.md" {
				for _, part := range partsOf(t, folder+"/"+file) {
					found[part] = lookup(t, dialectOfFile(name, file))
				}
			}
		}
	}
	return found
}

// dialectOfFile is the dialect of a file in the folder of another one.
func dialectOfFile(folders, file string) string {
	switch {
	case strings.HasPrefix(file, "responses-"):
		return "openai-responses"
	case strings.HasPrefix(file, "completions"):
		return "openai-completions"
	case strings.HasPrefix(file, "payloads-amazon-bedrock"):
		return "generic" // decoded: nothing sends it so
	default:
		return folders
	}
}

// partsOf are the streams in a file.
func partsOf(t testing.TB, file string) (names []string) {
	t.Helper()
	if !strings.HasSuffix(file, "-with-headings.txt") {
		return []string{file}
	}
	for line := range strings.Lines(string(testkit.Recording(t, file))) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			names = append(names, file+"#"+strings.TrimSpace(heading))
		}
	}
	return names
}

func factsOf(t testing.TB, name string, d *dialect.Dialect) facts {
	t.Helper()
	frames := cut(t, d.Kind, testkit.Recording(t, name), 0)
	s, snap := read(d, d.Kind, frames), fold(d, d.Kind, frames)
	known := facts{
		Dialect: d.Name, ByFrame: detected(t, d.Kind, testkit.Recording(t, name)), Frames: len(frames),
		State: s.state(d), Reason: s.Reason, Marker: s.Marker, ID: s.UpstreamID, Thread: s.ConversationID, Model: s.Model,
		Observed: s.Tools, Text: digestOf(snap.Text), Reasoning: digestOfOptional(snap.Reasoning), Finish: snap.FinishReason,
		Types: map[string]int{},
	}
	if s.Usage != nil {
		known.Usage = []any{s.Usage.InputTokens, s.Usage.OutputTokens, s.Usage.Complete}
	}
	for _, r := range snap.ToolReceipts {
		known.Receipts = append(known.Receipts, receiptFact{r.Seq, r.CallID, r.Name, r.Status, digestOfOptional(r.Result)})
	}
	for _, c := range snap.Unresolved {
		known.Open = append(known.Open, callFact{c.Seq, c.CallID, c.Name, digestOf(c.Arguments)})
	}
	if e := snap.Error; e != nil {
		known.Error = &errorFact{e.Code, e.Type, digestOf(e.Message)}
	}
	for _, clean := range frames {
		known.Types[typeOf(d, clean)]++
	}
	return known
}

// detected is the dialect that the first frame with data shows, as it arrives.
func detected(t testing.TB, kind frame.Kind, body []byte) (name string) {
	t.Helper()
	sink := frame.Sink{Frame: func(f *frame.Frame) error {
		if name == "" && len(f.Data) > 0 {
			name = dialect.DetectByFrame(lookup(t, "generic"), f).Name
		}
		return nil
	}}
	if err := frame.New(kind, 0).Cut(body, sink); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRecordingsTellTheirKnownFacts(t *testing.T) {
	t.Parallel()
	got := map[string]facts{}
	for name, d := range streams(t) {
		got[name] = factsOf(t, name, d)
	}
	if *update {
		writeFacts(t, got)
	}
	want := readFacts(t)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		known, ok := want[name]
		if !ok {
			t.Errorf("%s: no facts are known; run with -update and look at them", name)
			continue
		}
		if g, w := encode(t, got[name]), encode(t, known); g != w {
			t.Errorf("%s: got %s\nwant %s", name, g, w)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s: facts are known of a recording that is not there", name)
	}
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readFacts(t testing.TB) (known map[string]facts) {
	t.Helper()
	b, err := os.ReadFile(factsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &known); err != nil {
		t.Fatal(err)
	}
	return known
}

func writeFacts(t testing.TB, known map[string]facts) {
	t.Helper()
	b, err := json.MarshalIndent(known, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(factsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(factsFile, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFactsDoNotDependOnChunking: the same frames, facts and snapshot come out
// however the body arrives, and whenever a snapshot is taken on the way
// (promise 4).
func TestFactsDoNotDependOnChunking(t *testing.T) {
	t.Parallel()
	for name, d := range streams(t) {
		body := testkit.Recording(t, name)
		whole := cut(t, d.Kind, body, 0)
		facts, snap := encode(t, read(d, d.Kind, whole)), digestOf(encode(t, fold(d, d.Kind, whole)))
		for _, size := range []int{1, 7, 4093} {
			frames := cut(t, d.Kind, body, size)
			if got := encode(t, read(d, d.Kind, frames)); got != facts {
				t.Errorf("%s in pieces of %d: got facts %s, want %s", name, size, got, facts)
			}
			if got := digestOf(encode(t, foldLookingOften(d, d.Kind, frames))); got != snap {
				t.Errorf("%s in pieces of %d: got a snapshot %v, want %v", name, size, got, snap)
			}
		}
	}
}

// foldLookingOften takes a snapshot after every frame.
func foldLookingOften(d *dialect.Dialect, kind frame.Kind, frames [][]byte) dialect.Snapshot {
	var f frame.Frame
	folder := d.NewFolder()
	for i, clean := range frames {
		frame.Parse(kind, clean, &f)
		folder.Fold(uint64(i+1), &f)
		folder.Snapshot()
	}
	return folder.Snapshot()
}

// TestReaderAndFolderAgree: what a run is told to be while it lives, and what
// its stored frames say afterwards.
func TestReaderAndFolderAgree(t *testing.T) {
	t.Parallel()
	for name, d := range streams(t) {
		frames := cut(t, d.Kind, testkit.Recording(t, name), 0)
		s, snap := read(d, d.Kind, frames), fold(d, d.Kind, frames)
		if failed := s.Outcome == dialect.OutcomeFailed; failed != (snap.Error != nil) {
			t.Errorf("%s: got failed %v and error %+v", name, failed, snap.Error)
		}
		if d.Name != "mcp" && len(s.Tools) != len(snap.ToolReceipts) {
			t.Errorf("%s: got %d observed tools and %d receipts", name, len(s.Tools), len(snap.ToolReceipts))
		}
		for i, r := range snap.ToolReceipts {
			if r.Name != s.Tools[i] {
				t.Errorf("%s: got tool %q in the receipt, %q while it ran", name, r.Name, s.Tools[i])
			}
		}
	}
}

// TestHandWrittenStreamsOfAGUI: several streams in one file, under headings.
func TestHandWrittenStreamsOfAGUI(t *testing.T) {
	t.Parallel()
	const file = "ag-ui/dart-sdk-sse-streams-with-headings.txt"
	want := map[string]string{ // state, thread, text
		"Simple Text Message Stream": "completed thread_01 32", "Tool Call Stream": "completed thread_02 0",
		"Heartbeat and Comments": "completed thread_03 4", "Multi-line Data Fields": "truncated  0",
		"With Event IDs and Retry": "truncated  15", "Malformed Examples": "truncated  0",
		"Empty Lines and Spacing": "completed thread_04 0", "Unicode and Special Characters": "truncated  57",
	}
	for _, name := range partsOf(t, file) {
		title := strings.TrimPrefix(name, file+"#")
		known := factsOf(t, name, lookup(t, "ag-ui"))
		if got := fmt.Sprintf("%s %s %d", known.State, known.Thread, known.Text.Bytes); got != want[title] {
			t.Errorf("%s: got %s, want %s", title, got, want[title])
		}
		delete(want, title)
	}
	if len(want) > 0 {
		t.Errorf("got no streams for %v", want)
	}
}
