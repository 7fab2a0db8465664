package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// maybeStart decides whether a request that is no resource of ours starts a
// run. Whatever does not is handed on untouched.
func (h *Handler) maybeStart(w http.ResponseWriter, r *http.Request, next Next) error {
	var body []byte
	var whole bool
	route, explicit := h.explicitStart(r)
	if _, ours := ourCursorText(r); ours && !explicit {
		route, explicit = defaultRoute, true // never a start: it re-attaches, whatever the path
	}
	if !explicit {
		switch h.recognize(r) {
		case dialect.No:
			if served, err := h.serveLocated(w, r); served {
				return h.answer(w, r, err)
			}
			return h.passThrough(w, r, next)
		case dialect.Undecided:
			var err error
			if body, whole, err = readBody(r, h.cfg.Limits.RequestBody); err != nil || !whole {
				return h.unreadable(w, r, next, err)
			}
			if err := h.cfg.Guard.unambiguous(body); err != nil { // it could be taken for a start elsewhere
				return h.answer(w, r, err)
			}
			if dialect.IsControl(r.Method, r.URL.Path, body) {
				h.crossOrigin(w, r)
				return h.answer(w, r, h.serveControl(w, r, next, body))
			}
			if !gjson.ValidBytes(body) || !dialect.RecognizeBody(r.URL.Path, body) {
				untouched(r, body)
				return h.passThrough(w, r, next)
			}
		case dialect.Yes:
		}
		route = defaultRoute
	}
	if h.cfg.Name != "" {
		route = h.cfg.Name
	}
	if h.crossOrigin(w, r) {
		return nil
	}
	s := &start{r: r, route: route, links: h.linksFor(r), body: body}
	return h.answer(w, r, h.serveStart(w, s, next, explicit, whole))
}

// defaultRoute names the route of starts that no pattern matched.
const defaultRoute = "default"

// unreadable handles a body that could not be read ahead: too large is not a
// start, and a client that left needs no answer.
func (h *Handler) unreadable(w http.ResponseWriter, r *http.Request, next Next, err error) error {
	if err != nil {
		return h.answer(w, r, &Problem{Code: codeMalformedRequest, Detail: "The request body ended early.", Err: err})
	}
	if h.cfg.Guard.on() { // padding must not lead around it
		return h.answer(w, r, refuse(codeTooLarge, "The body is larger than request_body allows."))
	}
	return h.passThrough(w, r, next)
}

// explicitStart reports whether the start option names the request, and by
// which pattern.
func (h *Handler) explicitStart(r *http.Request) (route string, ok bool) {
	if !h.narrowed(r) || isUpgrade(r) {
		return "", false
	}
	for _, p := range h.cfg.Starts {
		if p.matches(r) {
			return p.route(), !dialect.IsControl(r.Method, r.URL.Path, nil)
		}
	}
	if h.cfg.StartMatch != nil && h.cfg.StartMatch(r) {
		return defaultRoute, !dialect.IsControl(r.Method, r.URL.Path, nil)
	}
	return "", false
}

func (h *Handler) narrowed(r *http.Request) bool { return h.cfg.Match == nil || h.cfg.Match(r) }

// recognize recognises generations when no start option is given.
func (h *Handler) recognize(r *http.Request) dialect.Recognition {
	if len(h.cfg.Starts) > 0 || h.cfg.StartMatch != nil || !h.narrowed(r) || isUpgrade(r) {
		return dialect.No
	}
	if r.ContentLength > h.cfg.Limits.RequestBody && !h.cfg.Guard.on() {
		return dialect.No
	}
	return dialect.Recognize(r, r.URL.Path, h.own)
}

func isUpgrade(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect
}

// isEarly reports whether a request may have come as early data, here or at a
// proxy in front (RFC 8470, section 5.1): whoever recorded that can send it again
// and have a second generation paid.
func isEarly(r *http.Request) bool {
	return r.TLS != nil && !r.TLS.HandshakeComplete || r.Header.Get("Early-Data") == "1"
}

func (p StartPattern) matches(r *http.Request) bool {
	if p.Method != "" && p.Method != r.Method {
		return false
	}
	if prefix, ok := strings.CutSuffix(p.Path, "*"); ok {
		return strings.HasPrefix(r.URL.Path, prefix)
	}
	return r.URL.Path == p.Path
}

// serveStart admits a start and answers it from the log of the run that it
// began or repeats.
func (h *Handler) serveStart(w http.ResponseWriter, s *start, next Next, explicit, haveBody bool) error {
	if isEarly(s.r) {
		return refuse(codeTooEarly, "Send the request again.")
	}
	if explicit && s.r.ContentLength > h.cfg.Limits.RequestBody {
		return refuse(codeTooLarge, "The body is larger than request_body allows.")
	}
	if err := h.identifyStart(s); err != nil {
		return err
	}
	if !haveBody {
		body, whole, err := readBody(s.r, h.cfg.Limits.RequestBody)
		switch {
		case err != nil:
			return &Problem{Code: codeMalformedRequest, Detail: "The request body ended early.", Err: err}
		case !whole && (explicit || h.cfg.Guard.on()):
			return refuse(codeTooLarge, "The body is larger than request_body allows.")
		case !whole:
			h.withdrawCORS(w.Header())
			return pass(h.passThrough(w, s.r, next))
		}
		s.body = body
	}
	var err error
	if s.outgoing, err = h.cfg.Guard.check(s.r.URL, s.body); err != nil { // before the body may decide what it is
		return err
	}
	if dialect.IsControl(s.r.Method, s.r.URL.Path, s.body) {
		return h.serveControl(w, s.r, next, s.body)
	}
	if err := h.readStart(s); err != nil {
		return err
	}
	if cursor, ok, err := cursorOf(s.r); ok {
		return h.reattachStart(w, s, cursor, err)
	}
	return h.admitAndServe(w, s, next)
}

// identifyStart establishes the caller: identity, then CSRF.
func (h *Handler) identifyStart(s *start) error {
	caller, err := h.identify(s.r)
	if err != nil {
		return err
	}
	s.caller = caller
	return h.guardWrite(s.r, caller)
}

// readStart reads key, conversation and fingerprints.
func (h *Handler) readStart(s *start) (err error) {
	if s.key, err = idempotencyKey(s.r.Header); err != nil {
		return err
	}
	if s.attempt, s.confirmed, err = attemptOf(s.r.Header); err != nil {
		return err
	}
	if s.own, _ = dialect.RunKey(s.body); s.key == "" {
		s.key = s.own
	}
	if _, ours := ourCursorText(s.r); s.key == "" && h.cfg.Idempotency.Required && !ours {
		return refuse(codeKeyMissing, "Send an Idempotency-Key, a new one for each new request.")
	}
	if s.conversation, s.sent, err = h.conversationOf(s.r, h.cfg.Dialect, s.body); err != nil {
		return err
	}
	s.named = s.conversation != ""
	s.wishes = dialect.WishesOf(h.cfg.Dialect, s.r.URL.Path, s.body)
	h.fingerprints(s)
	if starter, ok := h.deps.Identity.(authz.Starter); ok && !s.caller.Known {
		if s.caller, s.cookie, err = starter.Newcomer(s.r, s.key, s.fingerprint[:]); err != nil {
			return problemOf(err)
		}
	}
	s.subject = h.subjectOf(s.r, s.caller)
	if !s.named {
		s.conversation = runregistry.NewConversationID()
	}
	return nil
}

// admitAndServe is the start proper: one admission, at most one dispatch.
func (h *Handler) admitAndServe(w http.ResponseWriter, s *start, next Next) error {
	if err := h.admissible(s); err != nil {
		return err
	}
	decision, err := h.admit(s)
	if err != nil {
		return err
	}
	h.deps.Engine.readerCame(decision.Record.ID)
	defer h.deps.Engine.readerLeft(decision.Record.ID) // after the watch is closed: it asks who is left
	defer decision.Watch.Close()
	h.deps.Metrics.admitted(decision.Match)
	if s.cookie != nil {
		http.SetCookie(w, s.cookie)
	}
	if decision.Superseded != "" {
		h.deps.Engine.halt(decision.Superseded, nil)
	}
	d := h.newDelivery(w, s, decision)
	if d.replayed {
		if err := h.mayAttach(s, decision.Record); err != nil {
			d.brokeEarly()
			return err
		}
	}
	if decision.Match == runregistry.MatchNone {
		if d.pump, err = h.begin(s, decision, next); err != nil {
			d.brokeEarly()
			return err
		}
		defer d.pump.release()
	}
	return d.serve(s.r.Context(), h.cfg.EarlyHeaders)
}

// begin stores the dispatch intent and lets a pump loose.
func (h *Handler) begin(s *start, decision *runregistry.Decision, next Next) (*pump, error) {
	ctx := context.WithoutCancel(s.r.Context())
	engine := h.deps.Engine
	p := h.newPump(s, decision, next)
	if !engine.enrol(p) {
		h.giveUp(ctx, decision.Lease, runregistry.ReasonGatewayStopped)
		return nil, refuse(codeDraining, "Try again in a moment.")
	}
	if decision.Record.Lined {
		engine.enqueue(p, s.asked)
		engine.started.add(s.r.URL.Path)
		return p, nil
	}
	rec, err := engine.store.Intend(ctx, decision.Lease)
	if err != nil {
		engine.dismiss(p)
		if errors.Is(err, runregistry.ErrSettled) {
			return nil, nil //nolint:nilnil // stopped in between: the delivery tells
		}
		h.giveUp(ctx, decision.Lease, runregistry.ReasonStoreUnavailable)
		return nil, err
	}
	if !engine.trusts(s.asked) {
		engine.dismiss(p)
		h.giveUp(ctx, decision.Lease, runregistry.ReasonOwnerLost)
		return nil, refuse(codeStore, "Nothing was sent to the backend. Try again.")
	}
	p.intended(rec)
	h.noteWay(s.r, next)
	engine.launch(p)
	engine.started.add(s.r.URL.Path)
	return p, nil
}

// giveUp settles a run that was admitted but not dispatched.
func (h *Handler) giveUp(ctx context.Context, l runregistry.Lease, why runregistry.Reason) {
	if _, err := h.deps.Engine.store.Settle(ctx, l, undispatched(why)); err != nil {
		h.deps.Log.Warn("undispatched run was not settled", logRun(l.Run), logError(err))
	}
}

// newPump detaches everything a run needs from the request that starts it.
func (h *Handler) newPump(s *start, decision *runregistry.Decision, next Next) *pump {
	ctx, cancel := context.WithCancelCause(detached())
	rec := decision.Record
	about := aboutRun(rec, runregistry.Running, h.pseudonym(s.caller))
	ctx, span := h.startRunSpan(ctx, s.r.Context(), rec)
	request := h.deps.Host.Detach(ctx, s.r, about)
	h.prepareUpstream(request, s)
	h.mark(request, rec.ID)
	span.inject(request.Header)
	cfg := h.cfg
	if s.wishes.OnDisconnect != "" {
		cfg.DisconnectCancel = s.wishes.OnDisconnect == dialect.DisconnectCancel
	}
	p := &pump{
		engine: h.deps.Engine, cfg: &cfg, log: h.deps.Log, lease: decision.Lease,
		request: request, next: next, host: h.deps.Host, path: s.r.URL.Path, told: dialect.DetectByRequest(s.r.Header, s.body), keyed: s.key != "", own: s.own,
		span: span, subject: about.Subject, ctx: ctx, cancel: cancel, storeCtx: context.WithoutCancel(ctx),
		began: time.Now(), header: make(http.Header), throttle: newThrottle(h.cfg.Limits.RunBytes),
		bearings: bearings{run: rec.ID, conversation: rec.Conversation, origin: s.origin},
	}
	if s.callable {
		p.ground = newGround(h.deps.Host, h.detachBare(ctx, s, about), next, about)
		p.bearings.dialect = h.presumedDialect(p)
		if s.named {
			p.bearings.thread = string(rec.Conversation)
		}
	}
	return p
}

// detachBare is another copy of a start, without its body, for calls about the
// run: handlers change the one that they are given while a call may be made.
func (h *Handler) detachBare(ctx context.Context, s *start, about About) *http.Request {
	r := h.deps.Host.Detach(ctx, s.r, about)
	h.prepareUpstream(r, &start{})
	return r
}

// presumedDialect is what upstream is expected to speak before it answered, or
// nil.
func (h *Handler) presumedDialect(p *pump) *dialect.Dialect {
	if p.told != nil && h.cfg.Dialect == autoDialect {
		return p.told
	}
	d, _ := h.deps.Engine.dialects.Lookup(h.expectedDialect(p.path))
	return d
}

// stripUpstream are request fields that must not reach upstream: they concern
// our connection, would make net/http send a request twice, or would let
// upstream answer something else than the whole stream.
var stripUpstream = []string{
	"Expect", "X-Idempotency-Key", headerLastEventID, "If-None-Match", "If-Modified-Since", "Range", "If-Range", headerRunID,
}

// prepareUpstream gives the detached request its body and its fields. GetBody
// stays nil: net/http must not be able to replay the request.
func (h *Handler) prepareUpstream(r *http.Request, s *start) {
	setBody(r, s.outgoing)
	for _, name := range stripUpstream {
		r.Header.Del(name)
	}
	if !h.cfg.Idempotency.Forward {
		r.Header.Del(headerIdempotencyKey)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Run-") {
			delete(r.Header, name)
		}
	}
	r.Header["Accept-Encoding"] = []string{"identity"}
	h.stripIdentity(r.Header)
	h.stripQuery(r)
}

// reattachStart serves a start that carries our own cursor: it re-attaches and
// never starts. A body must be the run's own.
func (h *Handler) reattachStart(w http.ResponseWriter, s *start, cursor runregistry.Cursor, err error) error {
	if err != nil {
		return problemOf(err)
	}
	rec, err := h.visible(s.r, s.caller, string(cursor.Run))
	if err != nil {
		return err
	}
	if s.r.Method == http.MethodPost && rec.Fingerprint != s.fingerprint {
		return problemOf(runregistry.ErrKeyReused)
	}
	return h.resume(w, s.r, rec, resumption{choose: h.reattachView, standing: h.standing(s.r, s.caller, h.identifier(s.r)), after: cursor.Seq, links: s.links, dialectShaped: true, replayed: true})
}
