package frame

import "strings"

// KindOf returns the framing of a body with this Content-Type, and false if
// the type is not one of a framed stream. Only the type itself counts;
// parameters are ignored, well-formed or not (a charset, too: event streams
// are always UTF-8).
func KindOf(contentType string) (Kind, bool) {
	essence, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.Trim(essence, " \t\r\n")) {
	case "text/event-stream":
		return SSE, true
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines":
		return Lines, true
	default: // application/json-seq (RFC 7464) separates records differently
		return Opaque, false
	}
}

// IsSSE reports whether a body with this Content-Type is an event stream.
func IsSSE(contentType string) bool {
	kind, ok := KindOf(contentType)
	return ok && kind == SSE
}
