package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// ground is what calls about a run stand on: the handlers that lead to the
// backend, and a request that went their way. It is not changed once made.
type ground struct {
	next    Next
	request *http.Request // to be copied, never sent
	// header are the fields of a call that goes through next.
	header http.Header
	// query, if set, takes the place of the one in the dialect's table: a client
	// that calls the backend's own resource may ask for more.
	query string
	// asked, if set, is the client's own call, for a run that the dialect's table
	// has too little for.
	asked *errand
	host  Host
	about About
}

// notForCalls are fields of a request that say something about its own body or
// its own answer.
var notForCalls = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Accept", headerIdempotencyKey, "Expect",
	"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Prefer", headerLastEventID,
}

func newGround(host Host, request *http.Request, next Next, about About) *ground {
	g := &ground{next: next, request: request, header: request.Header.Clone(), host: host, about: about}
	for _, name := range notForCalls {
		g.header.Del(name)
	}
	return g
}

// credentials are the fields that a Stop and a steer bring from their own
// caller.
var credentials = []string{"Authorization", "Cookie"}

// as is the ground with another caller's credentials, if there are any.
func (g *ground) as(caller http.Header) *ground {
	with := *g
	with.header = g.header.Clone()
	brings := func(name string) bool { return len(caller.Values(name)) > 0 }
	if !slices.ContainsFunc(credentials, brings) {
		return &with
	}
	for _, name := range credentials {
		with.header.Del(name)
		if values := caller.Values(name); len(values) > 0 {
			with.header[name] = slices.Clone(values)
		}
	}
	return &with
}

// prepare makes the request of an errand. What it returns is used once.
func (g *ground) prepare(ctx context.Context, e *errand) (Next, *http.Request, error) {
	if e.direct() {
		r, err := http.NewRequestWithContext(ctx, e.method, e.target, bytes.NewReader(e.body))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errUnsendable, err)
		}
		r.Header = e.header.Clone()
		r.GetBody = nil // net/http must not send it twice
		return sendDirect, e.dress(r), nil
	}
	to, err := url.ParseRequestURI(e.target)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errUnsendable, err)
	}
	if g.query != "" && e.own != nil {
		to.RawQuery = g.query
	}
	r := g.host.Detach(context.WithValue(ctx, insideKey{}, true), g.request, g.about)
	r.Method, r.RequestURI = e.method, to.RequestURI()
	*r.URL = *to // in place: the host may have kept the pointer
	r.Header = g.header.Clone()
	setBody(r, e.body)
	return g.next, e.dress(r), nil
}

// dress sets the fields that go with the body.
func (e *errand) dress(r *http.Request) *http.Request {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	switch {
	case e.contentType != "":
		r.Header.Set("Content-Type", e.contentType)
	case len(e.body) > 0:
		r.Header.Set("Content-Type", "application/json")
	}
	if e.key != "" {
		r.Header.Set(headerIdempotencyKey, e.key)
	}
	accept := e.accept
	if accept == "" {
		accept = "application/json"
	}
	if e.after != "" {
		r.Header[headerLastEventID] = []string{e.after}
	}
	r.Header["Accept"], r.Header["Accept-Encoding"] = []string{accept}, []string{"identity"}
	return r
}

// directClient makes the calls to absolute URLs. It follows no redirect: an
// address comes from the configuration alone.
var directClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// sendDirect is the [Next] of a call to an absolute URL.
func sendDirect(w http.ResponseWriter, r *http.Request) error {
	answer, err := directClient.Do(r)
	if err != nil {
		return fmt.Errorf("calling the backend: %w", err)
	}
	defer answer.Body.Close()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, err = io.Copy(w, answer.Body)
	return err
}

// reply is what the backend answered to a call.
type reply struct {
	status int
	header http.Header
	body   []byte // its first 64 KiB
}

const maxReply = 64 << 10

func (r *reply) accepted() bool { return r != nil && r.status >= 200 && r.status < 300 }

// again reports whether the same call may be answered otherwise in a moment:
// nobody was reached, or whoever was is busy.
func (r *reply) again() bool {
	switch {
	case r == nil:
		return true
	case r.status == http.StatusRequestTimeout, r.status == http.StatusTooEarly, r.status == http.StatusTooManyRequests,
		r.status == http.StatusBadGateway, r.status == http.StatusServiceUnavailable, r.status == http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// Header implements [http.ResponseWriter].
func (r *reply) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *reply) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

// Write implements [http.ResponseWriter]; what is too much goes nowhere.
func (r *reply) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.body = append(r.body, b[:min(len(b), maxReply-len(r.body))]...)
	return len(b), nil
}

// How often and how long a call is tried.
const (
	callTimeout  = 4 * time.Second
	callRetry    = 200 * time.Millisecond
	maxCallRetry = 5 * time.Second
)

// errNoAnswer means that the backend took a call and did not answer in time.
// It is not sent again: it may have been carried out.
var errNoAnswer = errors.New("backend did not answer the call")

// errBrokeOff means that the answer to a call came in part.
var errBrokeOff = errors.New("backend's answer broke off")

// errUnsendable means that a call makes no request.
var errUnsendable = errors.New("preparing call")

// once makes one call. A nil reply comes with an error.
func (g *ground) once(ctx context.Context, e *errand) (*reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer cancel()
	next, r, err := g.prepare(ctx, e)
	if err != nil {
		return nil, err
	}
	answer := &reply{header: http.Header{}}
	err = contained(next, answer, r)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	answer.WriteHeader(http.StatusOK) // what net/http does for a handler that writes nothing
	return answer, nil
}

// contained calls a handler that must not end the process.
func contained(next Next, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler: // which reverse_proxy throws
			err = errBrokeOff
		default:
			err = fmt.Errorf("calling the backend: handler panicked: %v", v)
		}
	}()
	return next(w, r)
}

// persist makes a call until it is answered, or until ctx ends.
func (g *ground) persist(ctx context.Context, e *errand) (*reply, error) {
	for wait := callRetry; ; wait = min(2*wait, maxCallRetry) {
		answer, err := g.once(ctx, e)
		if errors.Is(err, errNoAnswer) || errors.Is(err, errUnsendable) || err == nil && !answer.again() || ctx.Err() != nil {
			return answer, err
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return answer, errors.Join(err, context.Cause(ctx))
		}
	}
}

// detached is the root of the contexts of a run's calls.
func detached() context.Context {
	return context.WithValue(context.Background(), insideKey{}, true)
}

// nextKey is where a request for one of our resources carries the handlers
// behind us.
type nextKey struct{}

func withNext(r *http.Request, next Next) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), nextKey{}, next))
}

// lend makes the request at hand the ground of calls about a run: its own next
// handler, which is that of the newest configuration, and its caller's
// credentials.
func (h *Handler) lend(r *http.Request) lender {
	return func(base *ground) *ground {
		g := base.as(h.callerFields(r))
		if next, ok := r.Context().Value(nextKey{}).(Next); ok {
			g.next, g.request = next, h.deps.Host.Detach(context.WithoutCancel(base.request.Context()), r, base.about)
		}
		return g
	}
}

// lendWhole is lend for a request that is a cancel call of the backend's own.
func (h *Handler) lendWhole(r *http.Request, stop *dialect.Stop, body []byte) lender {
	lent := h.lend(r)
	return func(base *ground) *ground {
		g := lent(base)
		g.query = r.URL.RawQuery
		if stop.InBody && len(stop.UpstreamIDs) == 0 {
			g.asked = &errand{method: r.Method, target: r.URL.RequestURI(), body: body, own: stop.Call()}
		}
		return g
	}
}

// callerFields are the fields of a request without our own credential.
func (h *Handler) callerFields(r *http.Request) http.Header {
	head := http.Header{}
	for _, name := range credentials {
		if values := r.Header.Values(name); len(values) > 0 {
			head[name] = slices.Clone(values)
		}
	}
	h.stripIdentity(head)
	return head
}
