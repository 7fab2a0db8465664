package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// setCookie returns the attributes that a browser would see, without value.
func setCookie(c *http.Cookie) string {
	return strings.Replace(c.String(), c.Value, "...", 1)
}

// Promise 4: a forwarding header from anybody changes nothing.
func TestCookieAttributes(t *testing.T) {
	// What a server behind a TLS-ending proxy knows of a peer that it trusts.
	behindProxy := func(r *http.Request) bool { return r.RemoteAddr == "10.0.0.1:1" }
	fromProxy := plainRequest()
	fromProxy.RemoteAddr = "10.0.0.1:1"
	for _, tt := range []struct {
		name string
		o    authz.Options
		r    *http.Request
		want string
	}{
		{
			"TLS",
			authz.Options{},
			request(),
			"__Host-agent-runs=...; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=Lax",
		},
		{
			"clear text",
			authz.Options{},
			plainRequest(),
			"agent-runs=...; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax",
		},
		{
			"clear text that claims TLS",
			authz.Options{},
			plainRequest("X-Forwarded-Proto: https", "Forwarded: proto=https"),
			"agent-runs=...; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax",
		},
		{
			"trusted proxy ends TLS",
			authz.Options{Secure: behindProxy},
			fromProxy,
			"__Host-agent-runs=...; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=Lax",
		},
		{
			"somebody else in clear text",
			authz.Options{Secure: behindProxy},
			plainRequest("X-Forwarded-Proto: https"),
			"agent-runs=...; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax",
		},
		{
			"embedded",
			authz.Options{SameSiteNone: true},
			request(),
			"__Host-agent-runs=...; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=None; Partitioned",
		},
		{
			"embedded in clear text",
			authz.Options{SameSiteNone: true},
			plainRequest(),
			"agent-runs=...; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax",
		},
		{
			"an hour",
			authz.Options{TTL: time.Hour},
			request(),
			"__Host-agent-runs=...; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Lax",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Secret = options().Secret
			_, cookie := newcomer(t, session(t, tt.o), tt.r, "")
			if got := setCookie(cookie); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if err := cookie.Valid(); err != nil {
				t.Errorf("got an invalid cookie: %v", err)
			}
		})
	}
}

func TestPageLoadSetsTheSameCookieAsARun(t *testing.T) {
	s := session(t, options())
	_, run := newcomer(t, s, request(), "")
	if got, want := setCookie(s.PageLoad(navigation(), 200, page())), setCookie(run); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Whoever watches clear text must not be able to be that browser over TLS, and
// whoever can plant a cookie in clear text must not decide who it is.
func TestCookieOfOneTransportIsNoneOnTheOther(t *testing.T) {
	s := session(t, options())
	_, plain := newcomer(t, s, plainRequest(), "")
	_, secure := newcomer(t, s, request(), "")
	for _, tt := range []struct {
		name string
		r    *http.Request
	}{
		{"plain name over TLS", request(carry(plain))},
		{"plain value under the secure name", request("Cookie: " + secure.Name + "=" + plain.Value)},
		{"secure name in clear text", plainRequest(carry(secure))},
		{"secure value under the plain name", plainRequest("Cookie: " + plain.Name + "=" + secure.Value)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := identify(t, s, tt.r); got.Known {
				t.Errorf("got subject %+v, want nobody", got.Subject)
			}
		})
	}
}

func TestRequestOverTLSIgnoresAPlantedPlainCookie(t *testing.T) {
	s := session(t, options())
	_, planted := newcomer(t, s, plainRequest(), "")
	own, cookie := newcomer(t, s, request(), "")
	sameParty(t, identify(t, s, request(carry(planted), carry(cookie))), own)
}

func TestSessionOptionsNameEveryMistake(t *testing.T) {
	_, err := authz.NewSession(authz.Options{
		TTL: time.Second,
		Bind: []authz.Source{
			{In: "query", Name: "sid"},
			{In: authz.InCookie, Name: "a b"},
			{In: authz.InHeader},
			{In: authz.InCookie, Name: "__Host-agent-runs"},
			{In: authz.InHeader, Name: "cookie"},
		},
	})
	if err == nil {
		t.Fatal("got no error, want one")
	}
	for _, want := range []string{
		"no source for its signing key", "got ttl 1s, allowed is 1m0s or more",
		`got place "query", allowed are "cookie" and "header"`,
		`bind cookie: got name "a b"`, `bind header: got name ""`,
		`got "__Host-agent-runs", which is the session cookie itself`, `got "cookie", allowed are header fields with one credential`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant it to say %q", err, want)
		}
	}
}

func TestGoodSessionOptionsAreNoError(t *testing.T) {
	o := options()
	o.TTL = time.Minute
	o.Bind = []authz.Source{{In: authz.InCookie, Name: "connect.sid"}, {In: authz.InHeader, Name: "X-User"}}
	if _, err := authz.NewSession(o); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}
