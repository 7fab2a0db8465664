package caddymodule

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// prepared is a request as handlers of a Caddy server see it.
func prepared(t *testing.T, server *caddyhttp.Server) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat?x=1", strings.NewReader("body"))
	r.Header.Set("X-Kept", "yes")
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), server)
}

var about = proxy.About{RunID: "run_1", ConversationID: "conv_1", Attempt: 1, State: "running", Subject: "s"}

// TestDetachSharesNothing: whatever a handler does to either request, the
// other does not notice. (Promise 5.)
func TestDetachSharesNothing(t *testing.T) {
	r := prepared(t, new(caddyhttp.Server))
	r.TLS = &tls.ConnectionState{ServerName: "a"}
	r.Trailer = http.Header{"X-Late": nil}
	caddyhttp.SetVar(r.Context(), "color", "green")
	replacerOf(r).Set("http.auth.user.id", "alice")
	groups, _ := r.Context().Value(routeGroupCtxKey).(map[string]struct{})
	groups["g1"] = struct{}{}

	d := (&host{placeholders: []string{"http.auth.user.id"}}).Detach(context.Background(), r, about)
	r.Header.Set("X-Kept", "no")
	r.URL.Path = "/changed"
	r.TLS.ServerName = "b"
	caddyhttp.SetVar(r.Context(), "color", "red")
	replacerOf(r).Set("http.auth.user.id", "bob")
	groups["g2"] = struct{}{}

	repl := replacerOf(d)
	for placeholder, want := range map[string]string{
		"{http.request.header.X-Kept}": "yes", "{http.request.uri}": "/v1/chat?x=1", "{http.vars.color}": "green",
		"{http.auth.user.id}": "alice", "{http.agent_runs.run_id}": "run_1", "{http.agent_runs.attempt}": "1",
		"{http.response.header.X-Any}": "", "{http.request.orig_uri.path}": "/v1/chat",
	} {
		if got := repl.ReplaceAll(placeholder, ""); got != want {
			t.Errorf("%s of the detached request: got %q, want %q", placeholder, got, want)
		}
	}
	if got := d.TLS.ServerName; got != "a" {
		t.Errorf("TLS state: got %q, want a copy", got)
	}
	if got, _ := d.Context().Value(routeGroupCtxKey).(map[string]struct{}); len(got) != 1 {
		t.Errorf("route groups: got %v, want a copy of the one that was satisfied", got)
	}
	for _, key := range []caddy.CtxKey{caddy.ReplacerCtxKey, caddyhttp.VarsCtxKey, caddyhttp.ExtraLogFieldsCtxKey, routeGroupCtxKey} {
		was, is := fmt.Sprintf("%p", r.Context().Value(key)), fmt.Sprintf("%p", d.Context().Value(key))
		if was == is {
			t.Errorf("context value %s: got the original's, want one of its own", key)
		}
	}
	if d.Body != http.NoBody || d.GetBody != nil || d.ContentLength != 0 || d.Trailer != nil {
		t.Errorf("body: got %v, GetBody set %t, length %d, trailer %v, want none of them", d.Body, d.GetBody != nil, d.ContentLength, d.Trailer)
	}
}

// TestDetachLeavesTheClientBehind: the detached request ends with its own
// context and not with the client's, and finds no value of the connection.
func TestDetachLeavesTheClientBehind(t *testing.T) {
	type ofConnection struct{}
	r := prepared(t, nil)
	ctx, leave := context.WithCancel(context.WithValue(r.Context(), ofConnection{}, "value"))
	client := r.WithContext(ctx)
	run, stop := context.WithCancelCause(context.Background())
	d := new(host).Detach(run, client, about)
	leave()
	if err := d.Context().Err(); err != nil {
		t.Errorf("after the client left: got %v, want a live context", err)
	}
	if got := d.Context().Value(ofConnection{}); got != nil {
		t.Errorf("value of the connection: got %v, want none", got)
	}
	cause := errors.New("stopped")
	stop(cause)
	if got := context.Cause(d.Context()); !errors.Is(got, cause) {
		t.Errorf("after the run was stopped: got %v, want %v", got, cause)
	}
}

// TestImpersonalTellsNothingOfItsSender: not where reverse_proxy, a placeholder
// or a variable of a call about somebody else's run could take it from.
func TestImpersonalTellsNothingOfItsSender(t *testing.T) {
	r := prepared(t, new(caddyhttp.Server))
	r.TLS = &tls.ConnectionState{ServerName: "a", PeerCertificates: []*x509.Certificate{{}}}
	r.Header.Set("Authorization", "Bearer alice")
	caddyhttp.SetVar(r.Context(), "user", "alice")
	replacerOf(r).Set("http.auth.user.id", "alice")
	groups, _ := r.Context().Value(routeGroupCtxKey).(map[string]struct{})
	groups["g1"] = struct{}{}
	h := &host{placeholders: []string{"http.auth.user.id"}}

	d := h.Detach(context.Background(), h.Impersonal(r), about)
	repl := replacerOf(d)
	for placeholder, want := range map[string]string{
		"{http.request.header.Authorization}": "", "{http.vars.user}": "", "{http.auth.user.id}": "", "{http.request.remote.host}": "",
		"{http.request.uri}": "/v1/chat", "{http.request.host}": r.Host, "{http.agent_runs.run_id}": "run_1",
	} {
		if got := repl.ReplaceAll(placeholder, ""); got != want {
			t.Errorf("%s: got %q, want %q", placeholder, got, want)
		}
	}
	if d.TLS.ServerName != "a" || len(d.TLS.PeerCertificates) != 0 {
		t.Errorf("TLS: got %+v, want the server's name alone", d.TLS)
	}
	if got, _ := d.Context().Value(routeGroupCtxKey).(map[string]struct{}); len(got) != 1 {
		t.Errorf("route groups: got %v, want those that were satisfied", got)
	}
	if _, ok := caddyhttp.GetVar(d.Context(), caddyhttp.TrustedProxyVarKey).(bool); !ok {
		t.Error("the variable that reverse_proxy needs is not there")
	}
}

// TestDetachCleansTheHeader of what concerns the client's connection.
func TestDetachCleansTheHeader(t *testing.T) {
	r := prepared(t, nil)
	for _, name := range append([]string{"X-Hop", "Accept-Encoding"}, dropped...) {
		r.Header.Set(name, "x")
	}
	r.Header.Set("Connection", "keep-alive, X-Hop")
	d := new(host).Detach(context.Background(), r, about)
	want := http.Header{"X-Kept": {"yes"}, "Accept-Encoding": {"identity"}}
	if fmt.Sprint(d.Header) != fmt.Sprint(want) {
		t.Errorf("header: got %v, want %v", d.Header, want)
	}
}

// TestDetachKeepsTheRequestID: both requests are one to whoever reads logs.
func TestDetachKeepsTheRequestID(t *testing.T) {
	r := prepared(t, nil)
	id := replacerOf(r).ReplaceAll("{http.request.uuid}", "")
	d := new(host).Detach(context.Background(), r, about)
	if got := replacerOf(d).ReplaceAll("{http.request.uuid}", ""); got != id || id == "" {
		t.Errorf("request id: got %q, want %q", got, id)
	}
}

// TestDetachKeepsTheSpan unless the run has one of its own.
func TestDetachKeepsTheSpan(t *testing.T) {
	span := func(id byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}})
	}
	r := prepared(t, nil)
	r = r.WithContext(trace.ContextWithSpanContext(r.Context(), span(1)))
	d := new(host).Detach(context.Background(), r, about)
	if got := trace.SpanContextFromContext(d.Context()); got.TraceID() != span(1).TraceID() {
		t.Errorf("span without one of the run: got %v, want the request's", got.TraceID())
	}
	own := trace.ContextWithSpanContext(context.Background(), span(2))
	d = new(host).Detach(own, r, about)
	if got := trace.SpanContextFromContext(d.Context()); got.TraceID() != span(2).TraceID() {
		t.Errorf("span with one of the run: got %v, want the run's", got.TraceID())
	}
}

// TestExpandResolvesPlaceholders of the request, of the response if there is
// one, and the short ones of the run.
func TestExpandResolvesPlaceholders(t *testing.T) {
	r := prepared(t, nil)
	h := new(host)
	h.Annotate(r, about)
	answer := http.Header{"X-Agent-Release": {"r7", "r8"}}
	for _, c := range []struct {
		template string
		header   http.Header
		want     string
	}{
		{"fixed", nil, "fixed"},
		{"{http.request.header.X-Kept}", nil, "yes"},
		{"{http.response.header.X-Agent-Release}", answer, "r7,r8"},
		{"{http.response.header.x-agent-release}", answer, "r7,r8"},
		{"{http.response.header.X-Agent-Release}", nil, ""},
		{"{conversation_id}/{run_id}", nil, "conv_1/run_1"},
		{"a{unknown}b", nil, "ab"},
	} {
		if got := h.Expand(r, c.template, c.header); got != c.want {
			t.Errorf("expanding %q: got %q, want %q", c.template, got, c.want)
		}
	}
}

// TestUndeliveredNeedsProof: only a failed dial, or nobody to dial, shows that
// upstream did no work; and not behind a proxy that sends again.
func TestUndeliveredNeedsProof(t *testing.T) {
	refused := reverseproxy.NewDialError(errors.New("connection refused"))
	for _, c := range []struct {
		err     error
		resends bool
		want    bool
	}{
		{caddyhttp.Error(http.StatusBadGateway, refused), false, true},
		{caddyhttp.Error(http.StatusBadGateway, fmt.Errorf("over a proxy: %w", refused)), false, true},
		{caddyhttp.Error(http.StatusBadGateway, refused), true, false},
		{caddyhttp.Error(http.StatusServiceUnavailable, errors.New(noUpstream)), false, true},
		{caddyhttp.Error(http.StatusServiceUnavailable, errors.New("overloaded")), false, false},
		{caddyhttp.Error(http.StatusBadGateway, errors.New("connection reset")), false, false},
		{errors.New(noUpstream), false, false},
		{nil, false, false},
	} {
		if got := (&host{resends: c.resends}).Undelivered(c.err); got != c.want {
			t.Errorf("undelivered, %v (resends %t): got %t, want %t", c.err, c.resends, got, c.want)
		}
	}
}

// TestOriginalPathSurvivesRewrites.
func TestOriginalPathSurvivesRewrites(t *testing.T) {
	r := prepared(t, nil)
	r.URL = &url.URL{Path: "/rewritten"}
	if got := new(host).OriginalPath(r); got != "/v1/chat" {
		t.Errorf("original path: got %q, want /v1/chat", got)
	}
	bare := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/bare", nil)
	if got := new(host).OriginalPath(bare); got != "/bare" {
		t.Errorf("original path outside a server: got %q, want /bare", got)
	}
}

// TestErrorRoutesEndAtATerminalOne, as Caddy itself does.
func TestErrorRoutesEndAtATerminalOne(t *testing.T) {
	empty := caddyhttp.Route{Handlers: []caddyhttp.MiddlewareHandler{new(caddyhttp.Subroute)}}
	answers := caddyhttp.Route{Handlers: []caddyhttp.MiddlewareHandler{new(caddyhttp.StaticResponse)}}
	terminal := empty
	terminal.Terminal = true
	for name, c := range map[string]struct {
		routes caddyhttp.RouteList
		want   bool
	}{
		"none":                 {nil, false},
		"one":                  {caddyhttp.RouteList{answers}, true},
		"after an empty one":   {caddyhttp.RouteList{empty, answers}, true},
		"after a terminal one": {caddyhttp.RouteList{terminal, answers}, false},
	} {
		server := &caddyhttp.Server{Errors: &caddyhttp.HTTPErrorConfig{Routes: c.routes}}
		h := &host{server: server}
		if got := h.HandlesErrors(prepared(t, server), http.StatusBadGateway); got != c.want {
			t.Errorf("error routes, %s: got handled %t, want %t", name, got, c.want)
		}
	}
	if new(host).HandlesErrors(prepared(t, nil), http.StatusBadGateway) {
		t.Error("error routes outside a server: got handled, want not")
	}
}
