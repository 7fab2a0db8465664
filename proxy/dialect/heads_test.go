package dialect_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// head is what stands around a stream: the path of its request and the header
// of its answer, beside the content type.
type head struct {
	path   string
	header http.Header
}

// heads are those of folders whose list does not tell.
var heads = map[string]head{
	"a2a":                         {"/a2a/v1", nil},
	"ag-ui":                       {"/agent", nil},
	"anthropic-messages":          {"/v1/messages", nil},
	"assistant-transport":         {"/assistant", nil},
	"azure-openai":                {"/openai/deployments/d/chat/completions", nil},
	"bedrock-converse":            {"/model/m/converse-stream", nil},
	"gemini":                      {"/v1beta/models/m:streamGenerateContent", nil},
	"gemini-interactions":         {"/v1beta/interactions", nil},
	"langgraph":                   {"/threads/t/runs/stream", fields("Content-Location", "/threads/t/runs/r")},
	"mcp-streamable-http":         {"/mcp", fields("Mcp-Session-Id", "s")},
	"openai-chat":                 {"/v1/chat/completions", nil},
	"openai-chat-compatible":      {"/v1/chat/completions", nil},
	"openai-responses":            {"/v1/responses", nil},
	"openai-responses-compatible": {"/v1/responses", nil},
	"vercel-data-stream-v1":       {"/api/chat", fields("X-Vercel-Ai-Data-Stream", "v1")},
	"vercel-ui-message-stream":    {"/api/chat", fields("X-Vercel-Ai-Ui-Message-Stream", "v1")},
}

// headOf is the head that the backend of a recording sent, as far as the list
// of its folder tells, and as the heads above have it else.
func headOf(t *testing.T, name string, lists map[string]map[string]string) (path string, h http.Header) {
	t.Helper()
	folder, file, _ := strings.Cut(name, "/")
	path = heads[folder].path
	if lists[folder] == nil {
		lists[folder] = requests(t, folder)
	}
	if asked := lists[folder][file]; asked != "" {
		path = asked
	}
	if path == "" {
		t.Fatalf("%s: no path is known", name)
	}
	h = fields("Content-Type", contentTypeOf(name))
	maps.Copy(h, heads[folder].header)
	return path, h
}

// requests are the paths that the list of a folder names.
func requests(t *testing.T, folder string) map[string]string {
	t.Helper()
	paths := map[string]string{}
	for line := range strings.Lines(string(testkit.Recording(t, folder+"/MANIFEST.md"))) {
		cells := strings.Split(line, "|")
		if len(cells) < 8 {
			continue
		}
		_, address, _ := strings.Cut(strings.TrimSpace(cells[6]), " ")
		u, err := url.Parse(strings.NewReplacer("<", "", ">", "").Replace(address))
		if err == nil && strings.HasPrefix(u.EscapedPath(), "/") {
			paths[strings.Trim(strings.TrimSpace(cells[1]), "`")] = u.EscapedPath()
		}
	}
	return paths
}

func contentTypeOf(name string) string {
	switch {
	case strings.HasSuffix(name, ".bin"):
		return "application/vnd.amazon.eventstream"
	case strings.HasSuffix(name, ".ndjson"):
		return "application/x-ndjson"
	case strings.HasPrefix(name, "vercel-data"):
		return "text/plain; charset=utf-8"
	default:
		return "text/event-stream; charset=utf-8"
	}
}

// TestEachRecordingHasOneDialect: with the head that its backend sends. The
// header is certain; else the path stands if the first frame does not speak
// against it; else the first frame is certain. No two dialects ever claim one
// frame.
func TestEachRecordingHasOneDialect(t *testing.T) {
	t.Parallel()
	decided := map[string]int{}
	lists := map[string]map[string]string{}
	for name, d := range streams(t) {
		if strings.Contains(name, "#") || d.Name == "generic" {
			continue // written to try parsers out; in a form that nothing sends
		}
		path, h := headOf(t, name, lists)
		first := firstWithData(t, d, name)
		claims := dialect.CertainOf(&first)
		hint, certain := dialect.DetectByResponse(path, h)
		got := hint
		by := "header"
		if !certain {
			got, by = dialect.DetectByFrame(hint, &first), "frame"
			if got == hint {
				by = "path"
			}
		}
		if got != d {
			t.Errorf("%s at %s: got %s, want %s", name, path, got.Name, d.Name)
		}
		if len(claims) > 1 || len(claims) == 1 && claims[0] != d.Name {
			t.Errorf("%s: got claims of %v, want none but that of %s", name, claims, d.Name)
		}
		if by == "frame" && !slices.Equal(claims, []string{d.Name}) {
			t.Errorf("%s: got claims of %v, want that of %s", name, claims, d.Name)
		}
		decided[by]++
	}
	for by, least := range map[string]int{"header": 15, "path": 50, "frame": 8} {
		if decided[by] < least {
			t.Errorf("the %s decided %d times, want %d or more", by, decided[by], least)
		}
	}
}

func firstWithData(t *testing.T, d *dialect.Dialect, name string) (f frame.Frame) {
	t.Helper()
	raw, _ := pieces(t, d.Kind, testkit.Recording(t, name), 0)
	for _, block := range raw {
		if frame.Parse(d.Kind, block, &f); len(f.Data) > 0 {
			break
		}
	}
	return f
}

// TestAWrongDialectOnlyKnowsLess: whatever a stream is taken for, it is read and
// folded without a change to its bytes, and no end is seen in it before its own
// dialect sees how it ended: delivery would stop there.
func TestAWrongDialectOnlyKnowsLess(t *testing.T) {
	t.Parallel()
	for name, s := range everyStream(t) {
		if s.d.Name == "generic" {
			continue // nobody knows what is right
		}
		frames := parsed(s.d.Kind, s.raw)
		told := len(frames)
		own := s.d.NewReader()
		for i := range frames {
			if f := own.Read(&frames[i]); told == len(frames) && (f.End || f.Outcome != dialect.OutcomeNone) {
				told = i
			}
		}
		for _, other := range dialect.Names() {
			d := lookup(t, other)
			reader, folder := d.ReaderOf("run"), d.NewFolder()
			for i := range frames {
				f := reader.Read(&frames[i])
				if f.End && i < told {
					t.Errorf("%s as %s: got the end in frame %d of %d", name, other, i+1, len(frames))
				}
				folder.Fold(uint64(i+1), &frames[i])
				d.Type(&frames[i])
				d.PositionOf(&frames[i])
				if string(frames[i].Raw) != string(s.raw[i]) {
					t.Fatalf("%s as %s: frame %d was changed", name, other, i+1)
				}
			}
			folder.Snapshot()
		}
	}
}
