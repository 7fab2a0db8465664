package jwt_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/jwt"
)

// JWT-19 and AUT-8: the claims that the configuration names.
func TestClaimsNameTheSubject(t *testing.T) {
	with := hmacIssuer(t)
	with.Subject, with.Tenant = "user.name", "org"
	i := identity(t, with)
	named := members{"user": members{"name": "bob"}, "org": "acme"}
	c, err := i.Identify(bearing(good().with(named).sign(t)))
	if want := (authz.Subject{Tenant: "acme", Issuer: issuerName, Sub: "bob"}); err != nil || c.Subject != want {
		t.Errorf("got %+v and %v, want %+v", c, err, want)
	}
	for name, changes := range map[string]members{
		"no tenant":                 {"org": nil},
		"tenant of another type":    {"org": []string{"acme"}},
		"empty tenant":              {"org": ""},
		"no subject":                {"user": nil},
		"subject of another type":   {"user": "bob"},
		"subject that is no string": {"user": members{"name": 7}},
	} {
		wantRefused(t, i, name, good().with(named).with(changes).sign(t))
	}
}

// A caller ends when its token is no longer accepted.
func TestCallerTellsWhenItsTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := identity(t, hmacIssuer(t))
		exp := time.Now().Add(time.Minute + 500*time.Millisecond)
		token := good().with(members{"exp": float64(exp.UnixMilli()) / 1000, "roles": []string{"a"}}).sign(t)
		c := wantAlice(t, i, "a token", token)
		if got, want := c.Expires, exp.Add(30*time.Second); got.Sub(want).Abs() > time.Millisecond {
			t.Errorf("expires: got %v, want %v", got, want)
		}
		if got := c.Claims.Values("roles"); !slices.Equal(got, []string{"a"}) || c.Shared {
			t.Errorf("got %+v with roles %q, want those of the token", c, got)
		}
		time.Sleep(time.Until(c.Expires) - time.Millisecond)
		wantAlice(t, i, "just before", token)
		time.Sleep(2 * time.Millisecond)
		wantRefused(t, i, "just after", token)
	})
}

// AUT-3 and promise 5: where tokens may stand, and which one counts.
func TestOneRequestHasOneSubject(t *testing.T) {
	of := hmacIssuer(t)
	of.Cookie, of.Query = "access", "access_token"
	elsewhere := hmacIssuer(t)
	elsewhere.Name, elsewhere.Cookie = otherName, "other"
	i := identity(t, of, elsewhere)
	alice, bob := good().sign(t), good().with(members{"sub": "bob"}).sign(t)
	old, theirs := good().with(members{"exp": 1}).sign(t), good().with(members{"iss": otherName}).sign(t)
	header := func(token string) string { return "Authorization: Bearer " + token }
	cookie := func(token string) string { return "Cookie: a=1; access=" + token }
	in := func(token string) string { return "/?x=1&access_token=" + token }
	for _, tt := range []struct {
		name    string
		r       *http.Request
		err     error
		ambient bool
	}{
		{"header", request("/", header(alice)), nil, false},
		{"small letters", request("/", "Authorization: bearer "+alice), nil, false},
		{"header beside cookies of the application", request("/", header(alice), "Cookie: sid=1"), nil, false},
		{"cookie", request("/", cookie(alice)), nil, true},
		{"query", request(in(alice)), nil, false},
		{"query beside a cookie of the application", request(in(alice), "Cookie: sid=1"), nil, true},
		{"escaped name", request("/?access%5Ftoken=" + alice), nil, false},
		{"header and cookie of one subject", request("/", header(alice), cookie(alice)), nil, false},
		{"header, and a cookie that is old", request("/", header(alice), cookie(old)), nil, false},
		{"header and cookie of two subjects", request("/", header(alice), cookie(bob)), authz.ErrBadCredentials, false},
		{"query and cookie of two subjects", request(in(alice), cookie(bob)), authz.ErrBadCredentials, false},
		{"an old header beside a good cookie", request("/", header(old), cookie(alice)), authz.ErrBadCredentials, false},
		{"two headers", request("/", header(alice), header(bob)), authz.ErrBadCredentials, false},
		{"two equal headers", request("/", header(alice), header(alice)), authz.ErrBadCredentials, false},
		{"two cookies", request("/", cookie(alice)+"; access="+bob), authz.ErrBadCredentials, false},
		{"two parameters", request(in(alice) + "&access_token=" + bob), authz.ErrBadCredentials, false},
		{"a scheme alone", request("/", "Authorization: Bearer"), authz.ErrBadCredentials, false},
		{"another scheme", request("/", "Authorization: Basic YTpi"), authz.ErrNoCredentials, false},
		{"another scheme and a cookie", request("/", "Authorization: Basic YTpi", cookie(alice)), nil, true},
		{"nothing", request("/"), authz.ErrNoCredentials, false},
		{"empty places", request("/?access_token=", "Cookie: access="), authz.ErrNoCredentials, false},
		{"a parameter nobody named", request("/?token=" + alice), authz.ErrNoCredentials, false},
		{"a cookie nobody named", request("/", "Cookie: token="+alice), authz.ErrNoCredentials, false},
		{"a cookie of another issuer", request("/", "Cookie: other="+alice), authz.ErrBadCredentials, false},
		{"the parameter of another issuer", request(in(theirs)), authz.ErrBadCredentials, false},
		{"its own cookie", request("/", "Cookie: other="+theirs), nil, true},
	} {
		c, err := i.Identify(tt.r)
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || c.Ambient != tt.ambient || c.Known != (tt.err == nil) {
			t.Errorf("%s: got %+v and %v, want ambient %t and %v", tt.name, c, err, tt.ambient, tt.err)
		}
	}
}

func TestScopesAreNeeded(t *testing.T) {
	of := hmacIssuer(t)
	of.Scope, of.Read, of.Write = "scp", "runs:read", "runs:write"
	i := identity(t, of)
	for _, tt := range []struct {
		scopes      any
		read, write bool
	}{
		{"runs:read", true, false},
		{"x runs:write runs:read", true, true},
		{[]string{"runs:write"}, false, true},
		{nil, false, false},
		{"runs:reader", false, false},
		{7, false, false},
	} {
		c := wantAlice(t, i, "scopes", good().with(members{"scp": tt.scopes}).sign(t))
		for verb, want := range map[authz.Verb]bool{authz.Read: tt.read, authz.Write: tt.write, authz.Start: tt.write} {
			err := i.Permit(c, verb)
			if (err == nil) != want || err != nil && !errors.Is(err, authz.ErrScope) {
				t.Errorf("%v for verb %d: got %v, want permitted %t", tt.scopes, verb, err, want)
			}
		}
	}
	c := wantAlice(t, i, "no scopes", good().sign(t))
	if got, want := i.Challenge(i.Permit(c, authz.Write)), `Bearer realm="agent runs", error="insufficient_scope", scope="runs:write"`; got != want {
		t.Errorf("got challenge %q, want %q", got, want)
	}
	if err := i.Permit(authz.Caller{}, authz.Read); !errors.Is(err, authz.ErrScope) {
		t.Errorf("nobody: got %v, want %v", err, authz.ErrScope)
	}
}

// JWT-17 and promise 4: an answer, an error and a log hold no part of a token.
func TestNobodyIsToldWhy(t *testing.T) {
	var log bytes.Buffer
	i, err := jwt.New([]jwt.Issuer{hmacIssuer(t)}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	for reason, m := range map[string]mint{
		"expired": good().with(members{"exp": 1}), "audience": good().with(members{"aud": "c4n4ry"}), "issuer": good().with(members{"iss": "c4n4ry"}),
		"signature": good().by(good().method, []byte("c4n4ry")), "not_yet_valid": good().with(members{"nbf": 4102444799}),
		"subject": good().with(members{"sub": 7}), "algorithm": good().headed(members{"alg": "c4n4ry"}), "claims": good().with(members{"exp": "c4n4ry"}),
		"kind": good().headed(members{"typ": "c4n4ry"}), "header": good().headed(members{"crit": "c4n4ry"}),
	} {
		log.Reset()
		m = m.with(members{"email": "c4n4ry"})
		_, err := i.Identify(bearing(m.sign(t)))
		if !errors.Is(err, authz.ErrBadCredentials) || strings.Contains(err.Error()+log.String(), "c4n4ry") || !strings.Contains(log.String(), "reason="+reason+"\n") {
			t.Errorf("%s: got %v and log %q, want the reason and nothing of the token", reason, err, log.String())
		}
		if got := authz.Reason(err); got != reason {
			t.Errorf("%s: got reason %q to count", reason, got)
		}
	}
}

func TestTokensAreTakenOutOfURLsAndFingerprints(t *testing.T) {
	of := hmacIssuer(t)
	of.Cookie, of.Query = "access", "access_token"
	i := identity(t, of)
	for raw, want := range map[string]string{
		"": "", "a=1&b=%zz;&c": "a=1&b=%zz;&c", "access_token=x": "", "a=1&access_token=x&b=+2": "a=1&b=+2",
		"access%5ftoken=x&a": "a", "access_token": "", "access_token=x&access_token=y&": "", "my_access_token=x": "my_access_token=x",
		"Access_Token=x": "Access_Token=x",
	} {
		got := i.StripQuery(raw)
		if got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
		if values, _ := url.ParseQuery(got); values.Has("access_token") {
			t.Errorf("%q: got %q, which still has a token", raw, got)
		}
	}
	h := http.Header{"Authorization": {"Bearer x"}, "Cookie": {"a=1; access=x; b=2", "access=y"}, "X": {"1"}}
	i.DropTokens(h)
	if len(h) != 2 || h.Get("Cookie") != "a=1; b=2" || len(h["Cookie"]) != 1 {
		t.Errorf("got %q, want the cookies of others alone", h)
	}
}

// What golang-jwt would take for "do not check" is refused.
func TestUnsafeIssuersAreRefused(t *testing.T) {
	for name, change := range map[string]func(*jwt.Issuer){
		"no name":             func(i *jwt.Issuer) { i.Name = "" },
		"no audience":         func(i *jwt.Issuer) { i.Audience = nil },
		"empty audience":      func(i *jwt.Issuer) { i.Audience = []string{""} },
		"no keys":             func(i *jwt.Issuer) { i.Keys = nil },
		"no subject":          func(i *jwt.Issuer) { i.Subject = "" },
		"no algorithm":        func(i *jwt.Issuer) { i.Algorithms = nil },
		"none":                func(i *jwt.Issuer) { i.Algorithms = []string{"none"} },
		"secrets and public":  func(i *jwt.Issuer) { i.Algorithms = []string{"HS256", "RS256"} },
		"scopes without name": func(i *jwt.Issuer) { i.Scope = "scope" },
		"leeway of hours":     func(i *jwt.Issuer) { i.Leeway = time.Hour },
		"leeway below zero":   func(i *jwt.Issuer) { i.Leeway = -1 },
	} {
		i := hmacIssuer(t)
		change(&i)
		if _, err := jwt.New([]jwt.Issuer{i}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	if _, err := jwt.New([]jwt.Issuer{hmacIssuer(t), hmacIssuer(t)}, nil); err == nil {
		t.Error("one issuer twice: got no error, want one")
	}
	if _, err := jwt.New(nil, nil); err == nil {
		t.Error("no issuer: got no error, want one")
	}
}
