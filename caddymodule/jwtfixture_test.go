package caddymodule

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gojwt "github.com/golang-jwt/jwt/v5"
)

// jwtEnvironment sets what the configurations in testdata read.
func jwtEnvironment(t *testing.T) {
	t.Helper()
	t.Setenv("JWT_SECRET", "only-a-test-secret-only-a-test-secret")
	t.Setenv("ISSUER", "https://login.example.com")
	t.Setenv("AUDIENCE", "chat")
	t.Setenv("JWKS", "https://login.example.com/keys")
}

// caseSecret signs the tokens of the cases.
const caseSecret = "case-only-secret-0123456789abcdef-0123456789abcdef"

// jwtSite is the site of the cases, with further options of its identity.
func jwtSite(u *upstream, options ...string) string {
	return u.proxied("agent_runs {\nidentity jwt {\nissuer https://issuer.example\naudience stream-gateway\nkey HS256 " + caseSecret + "\n" +
		strings.Join(options, "\n") + "\n}\n}")
}

// minted returns a token of the cases for user-a; claims are added, times in
// seconds from now.
func minted(t *testing.T, times map[string]float64, claims gojwt.MapClaims) string {
	t.Helper()
	now := float64(time.Now().UnixMilli()) / 1000
	all := gojwt.MapClaims{"iss": "https://issuer.example", "aud": "stream-gateway", "sub": "user-a", "exp": now + 300}
	maps.Copy(all, claims)
	for name, after := range times {
		all[name] = now + after
	}
	token, err := gojwt.NewWithClaims(gojwt.SigningMethodHS256, all).SignedString([]byte(caseSecret))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// caseTokens reads the tokens of a case: name, whether it is accepted, token.
func caseTokens(t *testing.T, name string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", name, "tokens.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		if row := strings.Split(strings.TrimRight(line, "\n"), "\t"); row[0] != "name" {
			rows = append(rows, row)
		}
	}
	if len(rows) < 5 {
		t.Fatalf("%s: got %d tokens, want more", name, len(rows))
	}
	return rows
}

// tokenCase is a site of the cases with a run of user-a on it.
type tokenCase struct {
	*gateway
	u        *upstream
	resource []*http.Request // every kind of request about the run
}

func newTokenCase(t *testing.T, options ...string) *tokenCase {
	t.Helper()
	c := &tokenCase{gateway: newGateway(t), u: newUpstream(t)}
	c.load(jwtSite(c.u, options...))
	r := c.request(http.MethodPost, chatPath, prompt)
	r.Header.Set("X-Conversation-Id", "conv-1")
	s := c.stream(bearing(r, minted(t, nil, nil)))
	c.u.next().finish()
	s.rest()
	run := "/_runs/" + s.run()
	c.resource = []*http.Request{
		c.request(http.MethodGet, run+"/events", ""), c.request(http.MethodGet, run, ""),
		c.request(http.MethodGet, "/_runs/active?conversation_id=conv-1", ""), c.request(http.MethodPost, run+"/cancel", ""),
	}
	return c
}

func bearing(r *http.Request, token string) *http.Request {
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// decide sends a token with every kind of request and compares the decision.
func (c *tokenCase) decide(name, token string, accepted bool) {
	c.t.Helper()
	start := bearing(c.request(http.MethodPost, chatPath, prompt), token)
	if accepted {
		s := c.stream(start)
		if s.run() == "" {
			c.t.Errorf("%s: start: got %d, want a run", name, s.resp.StatusCode)
			return
		}
		c.u.next().finish()
		s.rest()
	} else {
		c.refused(name+": start", start, token)
	}
	for _, about := range c.resource {
		r := bearing(about.Clone(about.Context()), token)
		what := name + ": " + r.Method + " " + r.URL.Path
		if !accepted {
			c.refused(what, r, token)
		} else if resp, body := c.fetch(r); resp.StatusCode >= http.StatusBadRequest {
			c.t.Errorf("%s: got %d %s, want it served", what, resp.StatusCode, body)
		}
	}
	if len(c.u.calls) > 0 {
		c.t.Errorf("%s: got a call of the backend, want none more", name)
	}
}

// refused fails unless the answer is the one for all bad tokens.
func (c *tokenCase) refused(what string, r *http.Request, token string) {
	c.t.Helper()
	resp, body := c.fetch(r)
	if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer ") || resp.Header.Get("X-Run-Id") != "" {
		c.t.Errorf("%s: got %d %v, want 401 with a challenge and no run", what, resp.StatusCode, resp.Header)
	}
	if !strings.Contains(body, `"code":"token_invalid"`) || token != "" && strings.Contains(body, token) {
		c.t.Errorf("%s: got %s, want token_invalid without the token", what, body)
	}
	for _, word := range []string{"expire", "signature", "audience", "issuer", "algorithm"} {
		if strings.Contains(body, word) {
			c.t.Errorf("%s: got %s, want no word about the reason", what, body)
		}
	}
}
