package dialect

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// DetectByResponse returns the dialect of an answer as far as the path of the
// request and the answer's header fields tell. If it is certain, it is fixed;
// if not, the first frame with data has to confirm it: see [DetectByFrame].
func DetectByResponse(path string, h http.Header) (d *Dialect, certain bool) {
	if d := byHeader(h); d != nil {
		return d, true
	}
	kind, stream := frame.KindOf(h.Get("Content-Type"))
	for _, d := range all {
		if d.generates(path) && (d.Kind == kind || !stream) {
			return d, false
		}
	}
	return generic, false
}

func byHeader(h http.Header) *Dialect {
	switch {
	case h.Get("X-Vercel-Ai-Ui-Message-Stream") != "":
		return aiUI
	case h.Get(headerAIData) != "":
		return aiData
	case h.Get("Mcp-Session-Id") != "":
		return mcp
	case isEventStream(h):
		return bedrock
	}
	if _, run := langGraphLocation(h); run != "" {
		return langGraph
	}
	return nil
}

// langGraphLocation reads the ids in Content-Location:
// /threads/{thread}/runs/{run}, or /runs/{run} for a run without a thread.
func langGraphLocation(h http.Header) (thread, run string) {
	at, err := url.Parse(h.Get("Content-Location"))
	if err != nil {
		return "", ""
	}
	return runAddress(at.EscapedPath())
}

// runAddress reads the ids in the escaped path of a run.
func runAddress(path string) (thread, run string) {
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
	n := len(segments)
	if n < 3 || segments[n-2] != "runs" {
		return "", ""
	}
	if n >= 5 && segments[n-4] == "threads" {
		thread = segments[n-3]
	}
	return pathValue(thread), pathValue(segments[n-1])
}

// pathValue is what stands in one segment of a path.
func pathValue(segment string) string {
	value, err := url.PathUnescape(segment)
	if err != nil {
		return ""
	}
	return kept(value)
}

// DetectByFrame returns the dialect of a stream by its first frame with data.
// The hint is what [DetectByResponse] took it for: it stands if the frame can
// be of that dialect. The result is to be kept for the whole run.
func DetectByFrame(hint *Dialect, f *frame.Frame) *Dialect {
	if len(f.Data) == 0 || hint.plausible(f) {
		return hint
	}
	for _, d := range all {
		if d.certain(f) {
			return d
		}
	}
	return generic
}
