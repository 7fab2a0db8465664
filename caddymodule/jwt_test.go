package caddymodule

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	gojwt "github.com/golang-jwt/jwt/v5"
)

func TestCase47JWTAlgNoneAndForms(t *testing.T) {
	c := newTokenCase(t)
	for _, row := range caseTokens(t, "47-jwt-alg-none-and-forms") {
		c.decide(row[0], row[2], row[1] == "accept")
	}
	token := minted(t, nil, nil)
	small := c.resource[0].Clone(t.Context())
	small.Header.Set("Authorization", "bearer "+token)
	if resp, body := c.fetch(small); resp.StatusCode != http.StatusOK {
		t.Errorf("scheme in small letters: got %d %s, want 200", resp.StatusCode, body)
	}
	two := bearing(c.resource[0].Clone(t.Context()), token)
	two.Header.Add("Authorization", "Bearer "+minted(t, nil, gojwt.MapClaims{"sub": "user-b"}))
	c.refused("two tokens", two, token)
	alone := c.resource[0].Clone(t.Context())
	alone.Header.Set("Authorization", "Bearer")
	c.refused("a scheme alone", alone, "")
	for name, header := range map[string]http.Header{"no credentials": {}, "another scheme": {"Authorization": {"Basic dTpw"}}} {
		r := c.resource[0].Clone(t.Context())
		r.Header = header
		resp, body := c.fetch(r)
		if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || got != `Bearer realm="agent runs"` ||
			!strings.Contains(body, "authentication_required") {
			t.Errorf("%s: got %d, challenge %q and %s, want 401 without an error in the challenge", name, resp.StatusCode, got, body)
		}
	}
}

func TestCase51JWTAudience(t *testing.T) {
	c := newTokenCase(t)
	for _, row := range caseTokens(t, "51-jwt-audience") {
		c.decide(row[0], row[2], row[1] == "accept")
	}
}

// TestCase52JWTFractionsAndClockSkew: a token that was issued later than the
// leeway allows is refused, like one that is not valid yet.
func TestCase52JWTFractionsAndClockSkew(t *testing.T) {
	c := newTokenCase(t, "leeway 30s")
	for _, row := range caseTokens(t, "52-jwt-fractions-and-clock-skew") {
		c.decide(row[0], row[2], row[1] == "accept")
	}
	for _, tt := range []struct {
		claim    string
		after    float64
		accepted bool
	}{
		{"exp", -10, true},
		{"exp", -120, false},
		{"exp", 0.5, true},
		{"nbf", 10, true},
		{"nbf", 120, false},
		{"iat", 10, true},
		{"iat", 120, false},
		{"iat", -1, true},
	} {
		c.decide(fmt.Sprintf("%s=%v", tt.claim, tt.after), minted(t, map[string]float64{tt.claim: tt.after}, nil), tt.accepted)
	}
}

// TestTokensTellSubjectsApart by tenant and sub; a renewed token is the same
// subject's.
func TestTokensTellSubjectsApart(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(jwtSite(u, "tenant_claim org", "subject_claim email"))
	as := func(claims gojwt.MapClaims) func(*http.Request) {
		return setting("Authorization", "Bearer "+minted(t, nil, claims))
	}
	got := seenBy(t, g, u, as(gojwt.MapClaims{"email": "a@x", "org": "acme"}), map[string]func(*http.Request){
		"renewed":        as(gojwt.MapClaims{"email": "a@x", "org": "acme", "jti": "2"}),
		"another":        as(gojwt.MapClaims{"email": "b@x", "org": "acme"}),
		"another tenant": as(gojwt.MapClaims{"email": "a@x", "org": "other"}),
		"no tenant":      as(gojwt.MapClaims{"email": "a@x"}),
	})
	compareStatus(t, got, map[string]int{
		"renewed": http.StatusOK, "another": http.StatusNotFound, "another tenant": http.StatusNotFound, "no tenant": http.StatusUnauthorized,
	})
}

// TestRetryWithARenewedTokenAttaches: the token is no part of what makes two
// requests equal.
func TestRetryWithARenewedTokenAttaches(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.load(jwtSite(u, "query access_token"))
	first := g.request(http.MethodPost, chatPath+"?v=1&access_token="+minted(t, nil, nil), prompt)
	again := g.request(http.MethodPost, chatPath+"?v=1&access_token="+minted(t, nil, gojwt.MapClaims{"jti": "2"}), prompt)
	for _, r := range []*http.Request{first, again} {
		r.Header.Del("Authorization")
		r.Header.Set("Idempotency-Key", "one")
	}
	s := g.stream(first)
	if got := u.next(); got.query != "v=1" {
		t.Errorf("query at the backend: got %q, want it without the token", got.query)
	} else {
		got.finish()
	}
	s.rest()
	if r := g.stream(again); r.run() != s.run() || r.resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same with a renewed token: got %d and run %s, want run %s", r.resp.StatusCode, r.run(), s.run())
	}
	if strings.Contains(g.log(), "eyJ") {
		t.Error("log: got a token in it, want none")
	}
}

// TestScopesGateReadsAndWrites before any run is looked up.
func TestScopesGateReadsAndWrites(t *testing.T) {
	c := newTokenCase(t)
	c.load(jwtSite(c.u, "scope_claim scope read chat:read write chat:use"))
	for _, tt := range []struct {
		scope, lacking string
		read, write    int
	}{
		{"chat:read", "chat:use", http.StatusOK, http.StatusForbidden},
		{"chat:use x", "chat:read", http.StatusForbidden, http.StatusOK},
		{"chat:use chat:read", "", http.StatusOK, http.StatusOK},
		{"", "chat:", http.StatusForbidden, http.StatusForbidden},
	} {
		token := minted(t, nil, gojwt.MapClaims{"scope": tt.scope})
		for _, about := range c.resource {
			want := tt.read
			if about.Method == http.MethodPost {
				want = tt.write
			}
			resp, body := c.fetch(bearing(about.Clone(t.Context()), token))
			challenge := resp.Header.Get("WWW-Authenticate")
			forbidden := strings.Contains(challenge, `error="insufficient_scope", scope="`+tt.lacking) && strings.Contains(body, "insufficient_scope")
			if resp.StatusCode != want || forbidden != (want == http.StatusForbidden) {
				t.Errorf("scope %q, %s %s: got %d, challenge %q and %s, want %d", tt.scope, about.Method, about.URL.Path, resp.StatusCode, challenge, body, want)
			}
		}
	}
}

// TestCookieTokensNeedTheirOwnSite for writes.
func TestCookieTokensNeedTheirOwnSite(t *testing.T) {
	c := newTokenCase(t, "cookie access")
	for site, want := range map[string]int{"same-origin": http.StatusOK, "cross-site": http.StatusForbidden} {
		r := c.resource[3].Clone(t.Context())
		r.Header.Del("Authorization")
		r.Header.Set("Cookie", "access="+minted(t, nil, nil))
		r.Header.Set("Sec-Fetch-Site", site)
		if resp, body := c.fetch(r); resp.StatusCode != want {
			t.Errorf("stop by cookie from %s: got %d %s, want %d", site, resp.StatusCode, body, want)
		}
	}
}

// TestKeySetsOutliveReloads: two configurations ask an issuer once. Without
// keys nobody is let in, and it is no fault of the token.
func TestKeySetsOutliveReloads(t *testing.T) {
	set, err := os.ReadFile(filepath.Join("testdata", "jwt", "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join("..", "authz", "jwt", "testdata", "cases", "50-jwks-rotation-and-flood", "old.jwt"))
	if err != nil {
		t.Fatal(err)
	}
	var fetches atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		_, _ = w.Write(set) // the gateway tells
	}))
	defer issuer.Close()
	g, u := newGateway(t), newUpstream(t)
	site := func(jwks string) string {
		return u.proxied("agent_runs {\nidentity jwt {\nissuer https://issuer.example\naudience stream-gateway\njwks " + jwks + "\n}\n}")
	}
	status := func() int {
		resp, _ := g.fetch(bearing(g.request(http.MethodGet, "/_runs", ""), strings.TrimSpace(string(token))))
		return resp.StatusCode
	}
	g.load(site("http://127.0.0.1:1/keys"))
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("with the issuer down: got %d, want 503", got)
	}
	for range 3 {
		g.load(site(issuer.URL))
		if got := status(); got != http.StatusOK {
			t.Errorf("with the issuer up: got %d, want 200", got)
		}
	}
	if got := fetches.Load(); got != 1 {
		t.Errorf("fetches of three configurations: got %d, want 1", got)
	}
	g.load(u.proxied("agent_runs"))
	kept := 0
	remoteKeys.Range(func(_, _ any) bool { kept++; return true })
	if kept != 0 {
		t.Errorf("key sets that no configuration names: got %d, want none", kept)
	}
}
