package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// problemBase prefixes the type URI of every problem; each code has an anchor
// in that document.
const problemBase = "https://github.com/caddy-agent-runs/caddy-agent-runs/blob/main/docs/protocol.md#"

// code names a problem for programs; status and title follow from it.
type code string

// The problem codes of this package.
const (
	codeAuthRequired      code = "authentication_required"
	codeTokenInvalid      code = "token_invalid"
	codeScope             code = "insufficient_scope"
	codeCSRF              code = "csrf_rejected"
	codePrivileged        code = "privileged_field"
	codeNotFound          code = "run_not_found"
	codeMethod            code = "method_not_allowed"
	codeNotAcceptable     code = "not_acceptable"
	codeMalformedCursor   code = "malformed_cursor"
	codeWrongCursor       code = "wrong_run_cursor"
	codeFutureCursor      code = "future_cursor"
	codeConversation      code = "conversation_invalid"
	codeKeyMissing        code = "idempotency_key_missing"
	codeKeyInvalid        code = "idempotency_key_invalid"
	codeKeyReused         code = "idempotency_key_reused"
	codeInProgress        code = "request_in_progress"
	codeInFlight          code = "run_in_flight"
	codeRunActive         code = "run_active"
	codeRunDeleted        code = "run_deleted"
	codeRunCancelled      code = "run_cancelled"
	codeRetryUnsafe       code = "retry_unsafe"
	codeNotRetained       code = "response_not_retained"
	codeExpired           code = "stream_expired"
	codeTooLarge          code = "payload_too_large"
	codeTooEarly          code = "too_early"
	codeLimit             code = "limit_exceeded"
	codeQueueTimeout      code = "queue_timeout"
	codeStore             code = "store_unavailable"
	codeDraining          code = "draining"
	codeUnreachable       code = "upstream_unreachable"
	codeUpstreamTimeout   code = "upstream_timeout"
	codeUpstreamInvalid   code = "upstream_invalid"
	codeNotSteerable      code = "run_not_steerable"
	codeSteerUnsupported  code = "steer_unsupported"
	codeInternal          code = "internal"
	codeMalformedRequest  code = "malformed_request"
	codeUpstreamTruncated code = "upstream_truncated"
)

// kind is what all problems of one code have in common.
type kind struct {
	status    int
	title     string
	retryable bool
	// retryAfter is in seconds; 0 sends no Retry-After.
	retryAfter int
	// final tells SDKs that retry by status not to: the answer will be the same,
	// or the work was already paid for.
	final bool
}

var kinds = map[code]kind{
	codeAuthRequired:      {status: http.StatusUnauthorized, title: "Authentication is required"},
	codeTokenInvalid:      {status: http.StatusUnauthorized, title: "The credentials are not valid"},
	codeScope:             {status: http.StatusForbidden, title: "The credentials are not good for this"},
	codeCSRF:              {status: http.StatusForbidden, title: "The request comes from another site"},
	codePrivileged:        {status: http.StatusForbidden, title: "The body has a field that clients may not send"},
	codeNotFound:          {status: http.StatusNotFound, title: "There is no such run"},
	codeMethod:            {status: http.StatusMethodNotAllowed, title: "The method is not allowed here"},
	codeNotAcceptable:     {status: http.StatusNotAcceptable, title: "The run cannot be read in that format"},
	codeMalformedCursor:   {status: http.StatusBadRequest, title: "The cursor is malformed"},
	codeWrongCursor:       {status: http.StatusBadRequest, title: "The cursor belongs to another run"},
	codeFutureCursor:      {status: http.StatusConflict, title: "The cursor is beyond the end of the log", final: true},
	codeConversation:      {status: http.StatusBadRequest, title: "The conversation id is invalid"},
	codeKeyMissing:        {status: http.StatusBadRequest, title: "An Idempotency-Key is required"},
	codeKeyInvalid:        {status: http.StatusBadRequest, title: "The Idempotency-Key is invalid"},
	codeKeyReused:         {status: http.StatusUnprocessableEntity, title: "The Idempotency-Key was used for another request", final: true},
	codeInProgress:        {status: http.StatusConflict, title: "The same request is in progress", retryable: true, retryAfter: 2, final: true},
	codeInFlight:          {status: http.StatusConflict, title: "Another run is active in this conversation", retryable: true, final: true},
	codeRunActive:         {status: http.StatusConflict, title: "The run is active", retryable: true, final: true},
	codeRunDeleted:        {status: http.StatusConflict, title: "The run of this Idempotency-Key was deleted", final: true},
	codeRunCancelled:      {status: http.StatusConflict, title: "The run was stopped before it was answered", final: true},
	codeRetryUnsafe:       {status: http.StatusConflict, title: "Another attempt may repeat an effect", final: true},
	codeNotRetained:       {status: http.StatusConflict, title: "The answer was too large to be kept", final: true},
	codeExpired:           {status: http.StatusGone, title: "The frames of this run have expired", final: true},
	codeTooLarge:          {status: http.StatusRequestEntityTooLarge, title: "The request body is too large"},
	codeTooEarly:          {status: http.StatusTooEarly, title: "The request came before the connection was secured", retryable: true},
	codeLimit:             {status: http.StatusTooManyRequests, title: "A limit is reached", retryable: true, retryAfter: 5},
	codeQueueTimeout:      {status: http.StatusServiceUnavailable, title: "The conversation was busy for too long", retryable: true, retryAfter: 5},
	codeStore:             {status: http.StatusServiceUnavailable, title: "The run store is unavailable", retryable: true, retryAfter: 5},
	codeDraining:          {status: http.StatusServiceUnavailable, title: "This gateway is shutting down", retryable: true, retryAfter: 2},
	codeUnreachable:       {status: http.StatusBadGateway, title: "The backend cannot be reached", retryable: true, final: true},
	codeUpstreamTimeout:   {status: http.StatusGatewayTimeout, title: "The backend did not answer in time", final: true},
	codeUpstreamInvalid:   {status: http.StatusBadGateway, title: "The backend's answer cannot be used", final: true},
	codeUpstreamTruncated: {status: http.StatusBadGateway, title: "The connection to the backend was lost", final: true},
	codeNotSteerable:      {status: http.StatusConflict, title: "The run cannot be steered now", final: true},
	codeSteerUnsupported:  {status: http.StatusNotImplemented, title: "This run cannot be steered", final: true},
	codeInternal:          {status: http.StatusInternalServerError, title: "The gateway failed", final: true},
	codeMalformedRequest:  {status: http.StatusBadRequest, title: "The request is malformed"},
}

// Problem is an error with an HTTP answer (RFC 9457). Detail is for people and
// names no host, address, path of a machine, or secret.
type Problem struct {
	Code    code
	Detail  string
	Actions []runregistry.Action
	// Members are added to the document as they are.
	Members map[string]any
	// Header is added to the answer.
	Header http.Header
	// Err is the cause, for the log only.
	Err error
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Err != nil {
		return string(p.Code) + ": " + p.Err.Error()
	}
	return string(p.Code)
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Status is the HTTP status of the problem.
func (p *Problem) Status() int { return kinds[p.Code].status }

func refuse(c code, detail string) *Problem { return &Problem{Code: c, Detail: detail} }

func (p *Problem) with(key string, value any) *Problem {
	if p.Members == nil {
		p.Members = make(map[string]any)
	}
	p.Members[key] = value
	return p
}

// notFound is the one answer for absent, foreign, deleted and malformed runs.
func notFound() *Problem {
	return refuse(codeNotFound, "No run of this id exists for you.")
}

// problemOf is the only place where errors become answers. "Absent" and "not
// yours" meet here.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if limit, ok := errors.AsType[*runregistry.LimitError](err); ok {
		return limitReached(limit, err)
	}
	if unsafe, ok := errors.AsType[*runregistry.UnsafeRetryError](err); ok {
		return unsafeRetry(unsafe)
	}
	if attempt, ok := errors.AsType[*runregistry.AttemptError](err); ok {
		return noSuchAttempt(attempt)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Problem{Code: codeTooLarge, Detail: "Send a smaller body.", Err: err}
	}
	for sentinel, p := range sentinels {
		if errors.Is(err, sentinel) {
			found := *p
			found.Err = err
			return &found
		}
	}
	return &Problem{Code: codeInternal, Detail: "The request could not be served.", Err: err}
}

// limitReached also tells the limit in the fields of the IETF draft "RateLimit
// header fields for HTTP". The moment to come back is that of Retry-After.
func limitReached(limit *runregistry.LimitError, err error) *Problem {
	p := (&Problem{Code: codeLimit, Detail: limit.Error() + ".", Header: make(http.Header), Err: err}).with("limit", limit.Limit)
	p.Header.Set("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;qu="concurrent-requests"`, limit.Limit, limit.Max))
	p.Header.Set("RateLimit", fmt.Sprintf(`"%s";r=0;t=%d`, limit.Limit, kinds[codeLimit].retryAfter))
	return p
}

var sentinels = map[error]*Problem{
	runregistry.ErrNoRun:                 notFound(),
	runregistry.ErrUnavailable:           refuse(codeStore, "Nothing was sent to the backend. Try again."),
	runregistry.ErrKeyReused:             refuse(codeKeyReused, "Use a new key for a new request."),
	runregistry.ErrDeleted:               refuse(codeRunDeleted, "Use a new key to start again."),
	runregistry.ErrRunActive:             refuse(codeRunActive, "Stop the run first, or add ?force=true."),
	runregistry.ErrMalformedCursor:       refuse(codeMalformedCursor, "A cursor has the form <run_id>.<number>."),
	runregistry.ErrMalformedPage:         refuse(codeMalformedRequest, "page is the next of an earlier answer."),
	runregistry.ErrMalformedConversation: refuse(codeConversation, "Use 1 to 128 of A-Z a-z 0-9 . _ ~ : @ -"),
	authz.ErrNoCredentials:               refuse(codeAuthRequired, "Send credentials."),
	authz.ErrBadCredentials:              refuse(codeTokenInvalid, "Send valid credentials."),
	authz.ErrScope:                       refuse(codeScope, "Send a token with the scope that WWW-Authenticate names."),
	authz.ErrUnavailable:                 refuse(codeStore, "It cannot be told now who asks. Try again."),
	authz.ErrCrossSite:                   refuse(codeCSRF, "Send the request from a page of this site."),
}

// document is the JSON form. The error member is what LLM SDKs show.
func (p *Problem) document() map[string]any {
	k := kinds[p.Code]
	doc := map[string]any{
		"type": problemBase + string(p.Code), "title": k.title, "status": k.status,
		"detail": p.Detail, "code": string(p.Code), "retryable": k.retryable,
		"client_actions": actionsOf(p.Actions),
		"error":          map[string]any{"message": k.title + ". " + p.Detail, "type": string(p.Code), "code": string(p.Code)},
	}
	maps.Copy(doc, p.Members)
	return doc
}

func actionsOf(a []runregistry.Action) []runregistry.Action {
	if a == nil {
		return []runregistry.Action{}
	}
	return a
}

// write answers a request with the problem.
func (p *Problem) write(w http.ResponseWriter) {
	k := kinds[p.Code]
	head := w.Header()
	head.Set("Content-Type", "application/problem+json")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	if k.retryAfter > 0 {
		head.Set("Retry-After", strconv.Itoa(k.retryAfter))
	}
	if k.final {
		head.Set("X-Should-Retry", "false")
	}
	maps.Copy(head, p.Header)
	body, err := json.Marshal(p.document())
	if err != nil {
		body = []byte(`{}`)
	}
	w.WriteHeader(k.status)
	w.Write(body)
}
