package proxy

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// Response fields of the gateway.
const (
	headerRunID          = "X-Run-Id"
	headerAttempt        = "X-Run-Attempt"
	headerConversation   = "X-Conversation-Id"
	headerReplayed       = "Idempotent-Replayed"
	headerIdempotencyKey = "Idempotency-Key"
	headerLastEventID    = "Last-Event-Id"
)

// hopByHop are fields that concern one connection (RFC 9110, section 7.6.1).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// replayed is the allow-list of response fields that are stored and sent to
// every reader. Everything else belongs to the first delivery alone.
var replayed = []string{"Content-Type", "Content-Location", "Location", "Mcp-Session-Id"}

var replayedPrefixes = []string{"X-Vercel-Ai-", "Openai-", "Anthropic-"}

// storedHeader returns the fields of an answer that may be replayed.
func storedHeader(h http.Header, extra []string) http.Header {
	kept := make(http.Header, 4)
	for name, values := range h {
		if mayReplay(name, extra) {
			kept[name] = slices.Clone(values)
		}
	}
	return kept
}

func mayReplay(name string, extra []string) bool {
	if slices.Contains(replayed, name) || strings.HasSuffix(name, "Request-Id") {
		return true
	}
	if slices.ContainsFunc(replayedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return true
	}
	return slices.ContainsFunc(extra, func(e string) bool { return textproto.CanonicalMIMEHeaderKey(e) == name })
}

// firstHeader returns the fields of an answer for its first delivery: all but
// hop-by-hop fields and our own, and for a stream also without what the
// framing makes untrue.
func firstHeader(h http.Header, stream, cors bool) http.Header {
	out := h.Clone()
	for _, listed := range h.Values("Connection") {
		for name := range strings.SplitSeq(listed, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		out.Del(name)
	}
	for name := range out {
		if strings.HasPrefix(name, "X-Run-") || name == headerReplayed || cors && strings.HasPrefix(name, "Access-Control-") {
			delete(out, name)
		}
	}
	if stream {
		for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Accept-Ranges", "Content-Digest", "Repr-Digest", "Digest"} {
			out.Del(name)
		}
	}
	return out
}

// streamHeader sets what every stream of frames carries.
func streamHeader(h http.Header) {
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// mergeHeader copies src over dst.
func mergeHeader(dst, src http.Header) {
	for name, values := range src {
		if name == "Vary" || name == "Set-Cookie" {
			values = append(slices.Clone(dst[name]), values...)
		}
		dst[name] = slices.Clone(values)
	}
}

// exposed are the response fields that a script of another origin may read.
const exposed = "X-Run-Id, X-Run-Attempt, X-Conversation-Id, Idempotent-Replayed, Location, Content-Location, Link, Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate, X-Request-Id"

// allowed are the request fields that a script of another origin may send.
const allowedFields = "Authorization, Cache-Control, Content-Type, Idempotency-Key, Last-Event-ID, X-Conversation-Id, X-Run-Attempt, X-Run-Confirm, Prefer, If-None-Match, Accept, X-Api-Key, Api-Key, X-Stainless-Retry-Count"

// crossOrigin puts the CORS fields on an answer and reports whether the
// request is a preflight from an allowed origin, which is then answered.
func (h *Handler) crossOrigin(w http.ResponseWriter, r *http.Request) (preflight bool) {
	if len(h.cfg.CORS) == 0 {
		return false
	}
	head := w.Header()
	if !slices.Contains(head.Values("Vary"), "Origin") {
		head.Add("Vary", "Origin")
	}
	origin := r.Header.Get("Origin")
	if !h.origins.Allow(origin) {
		return false
	}
	head.Set("Access-Control-Allow-Origin", origin)
	head.Set("Access-Control-Allow-Credentials", "true")
	if !isPreflight(r) {
		head.Set("Access-Control-Expose-Headers", exposed)
		return false
	}
	head.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	head.Set("Access-Control-Allow-Headers", allowedHeaders(r.Header.Get("Access-Control-Request-Headers")))
	head.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// withdrawCORS takes our CORS fields back off an answer that turns out to be
// the backend's alone: two of each would be none.
func (h *Handler) withdrawCORS(head http.Header) {
	if len(h.cfg.CORS) == 0 {
		return
	}
	for name := range head {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(head, name)
		}
	}
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// servesPreflight reports whether the request that a preflight announces would
// be ours: a resource, or one that may start a run.
func (h *Handler) servesPreflight(r *http.Request) bool {
	if len(h.cfg.CORS) == 0 || !isPreflight(r) {
		return false
	}
	announced := r.Clone(r.Context())
	announced.Method = r.Header.Get("Access-Control-Request-Method")
	announced.Header.Set("Content-Type", "application/json")
	announced.ContentLength = -1 // as long as it wants to be
	if ours, _ := h.route(announced); ours {
		return true
	}
	_, explicit := h.explicitStart(announced)
	return explicit || h.recognize(announced) != dialect.No
}

// allowedHeaders names what scripts usually send, and what this one asks for:
// an allowed origin may use the application's own fields.
func allowedHeaders(requested string) string {
	list := allowedFields
	for name := range strings.SplitSeq(requested, ",") {
		name = strings.TrimSpace(name)
		if name != "" && isToken(name) && !strings.Contains(strings.ToLower(list), strings.ToLower(name)) {
			list += ", " + name
		}
	}
	return list
}

// isToken reports whether s is a field name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}
