package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// start is a request that begins a run or repeats one, with everything that
// was read from it.
type start struct {
	r       *http.Request
	body    []byte
	caller  authz.Caller
	subject runregistry.Subject
	cookie  *http.Cookie // set on the answer, if not nil

	route        string
	conversation runregistry.ConversationID
	named        bool                // the request names the conversation
	current      *runregistry.Record // the run of a named conversation, where others may see it
	sent         string              // the conversation as sent, for the fingerprint
	key          string
	own          string // what the client calls its run, if it does
	attempt      int    // under the key; 0 is the last
	confirmed    bool   // effects may happen again
	origin       dialect.Origin
	callable     bool // there may be calls about the run
	fingerprint  runregistry.Digest
	implicit     runregistry.Digest
	links        links
	wishes       dialect.Wishes
	outgoing     []byte    // the body for upstream, after the guard
	asked        time.Time // when the run was asked for in the store
}

// readBody takes the whole body, up to limit bytes. It reports with whole
// whether that was all; if not, the request's body is put back as it was.
func readBody(r *http.Request, limit int64) (body []byte, whole bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true, nil
	}
	if r.ContentLength > limit {
		return nil, false, nil
	}
	body, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, false, fmt.Errorf("reading request body: %w", err)
	}
	if int64(len(body)) > limit {
		r.Body = &putBack{Reader: io.MultiReader(bytes.NewReader(body), r.Body), Closer: r.Body}
		return nil, false, nil
	}
	return body, true, nil
}

// putBack is a body whose head was read ahead.
type putBack struct {
	io.Reader
	io.Closer
}

// untouched puts a body that was read ahead back for the next handler, byte
// for byte.
func untouched(r *http.Request, body []byte) {
	r.Body = &putBack{Reader: bytes.NewReader(body), Closer: r.Body}
}

// maxKey is the longest idempotency key, in bytes.
const maxKey = 255

// idempotencyKey reads the key, bare or as a Structured Field string: both
// spell the same key (draft-ietf-httpapi-idempotency-key-header, section 2.1).
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(headerIdempotencyKey)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", refuse(codeKeyInvalid, "Send one key.")
	}
	key := values[0]
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, notKeyRune) {
		return "", refuse(codeKeyInvalid, "A key is 1 to 255 printable ASCII characters without space, comma, semicolon, quote and backslash.")
	}
	return key, nil
}

func notKeyRune(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c) }

// conversationOf finds the conversation that a start names: the configured
// sources first, then the dialect's own field. A value from a configured
// source that is not an id is the caller's mistake; one from a dialect's field
// is only of no use.
func (h *Handler) conversationOf(r *http.Request, d string, body []byte) (id runregistry.ConversationID, sent string, err error) {
	for _, src := range h.cfg.Conversation {
		if text, ok := src.find(r, body); ok {
			id, err = runregistry.ParseConversationID(text)
			return id, text, err
		}
	}
	if text, ok := dialect.Conversation(d, r.URL.Path, body); ok {
		if id, err = runregistry.ParseConversationID(text); err == nil {
			return id, text, nil
		}
	}
	return "", "", nil
}

// find looks a value up in one source; an empty value counts as absent.
func (s Source) find(r *http.Request, body []byte) (string, bool) {
	var v string
	switch s.In {
	case "header":
		v = r.Header.Get(s.Name)
	case "query":
		v = r.URL.Query().Get(s.Name)
	case "body":
		if found := gjson.GetBytes(body, s.Name); found.Type == gjson.String || found.Type == gjson.Number {
			v = found.String()
		}
	case "path":
		values, _ := matchTemplate(s.Name, r.URL.Path)
		v = values["conversation_id"]
	}
	return v, v != ""
}

// matchTemplate compares a path with a template whose segments may be
// {placeholders}, and returns their values.
func matchTemplate(template, path string) (map[string]string, bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	values := make(map[string]string, 2)
	for i, segment := range want {
		name, open := strings.CutPrefix(segment, "{")
		switch {
		case open && strings.HasSuffix(name, "}"):
			if got[i] == "" {
				return nil, false
			}
			values[strings.TrimSuffix(name, "}")] = got[i]
		case segment != got[i]:
			return nil, false
		}
	}
	return values, true
}

// digest hashes parts with their lengths, so that no two lists collide.
func digest(parts ...[]byte) runregistry.Digest {
	hash := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		hash.Write(n[:])
		hash.Write(p)
	}
	return runregistry.Digest(hash.Sum(nil))
}

// fingerprints stand for the whole request. Credentials are only in the
// implicit one, without which a logout would hand one user's retry to the
// next. Tokens are in none: they name their subject, and are renewed while it
// stays.
func (h *Handler) fingerprints(s *start) {
	r := s.r
	essence, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		essence = r.Header.Get("Content-Type")
	}
	s.fingerprint = digest([]byte(r.Method), []byte(s.route), []byte(h.deps.Host.OriginalPath(r)), []byte(h.queryOf(r)),
		[]byte(essence), []byte(s.sent), s.body)
	bare := http.Header{"Cookie": slices.Clone(r.Header.Values("Cookie")), "Authorization": r.Header.Values("Authorization")}
	h.stripIdentity(bare)
	if tokens, ok := h.deps.Identity.(authz.TokenBearer); ok {
		tokens.DropTokens(bare)
	}
	s.implicit = digest(s.fingerprint[:], []byte(strings.Join(bare.Values("Cookie"), "; ")), []byte(bare.Get("Authorization")))
}

// implicitWindow is how far back a broken delivery may have begun to be
// claimed: longer when the client says that it retries.
func (h *Handler) implicitWindow(r *http.Request) time.Duration {
	if h.cfg.ImplicitRetry == 0 {
		return 0
	}
	if n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count")); err == nil && n > 0 {
		return max(h.cfg.ImplicitRetry, saidRetryWindow)
	}
	return h.cfg.ImplicitRetry
}

// saidRetryWindow is the window for a request that says it is a retry.
const saidRetryWindow = 15 * time.Minute

// cursorOf returns our cursor in a request: Last-Event-ID, on a GET also the
// query members that EventSource polyfills send. ok is false when there is
// none of ours; an id of somebody else's stream is not our business.
func cursorOf(r *http.Request) (c runregistry.Cursor, ok bool, err error) {
	text, ok := ourCursorText(r)
	if !ok {
		return c, false, nil
	}
	c, err = runregistry.ParseCursor(text)
	return c, true, err
}

func ourCursorText(r *http.Request) (string, bool) {
	candidates := slices.Clone(r.Header.Values(headerLastEventID))
	if len(candidates) == 0 && r.Method == http.MethodGet && r.URL.RawQuery != "" {
		q := r.URL.Query()
		candidates = append(candidates, q.Get("lastEventId"), q.Get("last_event_id"))
	}
	for _, text := range candidates {
		if runregistry.LooksLikeCursor(text) {
			return text, true
		}
	}
	return "", false
}

// realmOf is the realm of a request: the configured one, else its host.
func (h *Handler) realmOf(r *http.Request) string {
	if h.cfg.Realm != "" {
		return h.cfg.Realm
	}
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// subjectOf joins who asks with where.
func (h *Handler) subjectOf(r *http.Request, c authz.Caller) runregistry.Subject {
	return runregistry.Subject{Realm: h.realmOf(r), Tenant: c.Subject.Tenant, Issuer: c.Subject.Issuer, Sub: c.Subject.Sub}
}

// links builds the URIs of run resources as the client sees them.
type links struct{ prefix string }

// linksFor finds what stands before the API prefix in the original URI, for
// directives inside a block that strips its own path.
func (h *Handler) linksFor(r *http.Request) links {
	before, _ := strings.CutSuffix(h.deps.Host.OriginalPath(r), r.URL.Path)
	if before == h.deps.Host.OriginalPath(r) && r.URL.Path != "" {
		before = ""
	}
	return links{prefix: before + h.cfg.API}
}

func (l links) self(id runregistry.RunID) string   { return l.prefix + "/" + string(id) }
func (l links) events(id runregistry.RunID) string { return l.self(id) + "/events" }
func (l links) cancel(id runregistry.RunID) string { return l.self(id) + "/cancel" }

// header is the value of Link (RFC 8288) for one run.
func (l links) header(id runregistry.RunID) string {
	return fmt.Sprintf(`<%s>; rel="%srun", <%s>; rel="%sevents", <%s>; rel="%scancel"`,
		l.self(id), relationBase, l.events(id), relationBase, l.cancel(id), relationBase)
}

// relationBase prefixes extension relation types (RFC 8288, section 2.1.2).
const relationBase = "https://github.com/caddy-agent-runs/caddy-agent-runs#"
