package authz_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// canary is in everything secret that these requests carry.
const canary = "c4n4ry"

// TestNoErrorShowsASecret holds promise 2 for every error that depends on a
// request or on the signing key.
func TestNoErrorShowsASecret(t *testing.T) {
	short := session(t, authz.Options{Secret: func() ([]byte, error) { return []byte(canary), nil }})
	none := session(t, authz.Options{Secret: func() ([]byte, error) { return nil, errors.New("storage is down") }})
	header := &authz.Header{Subject: "X-User", Tenant: "X-Tenant", Trusted: everybody}
	values := &authz.Values{Subject: func(r *http.Request) string { return r.Header.Get("X-User") }}
	check := crossSite(t)
	r := func(fields ...string) *http.Request {
		return request(append(fields, "Cookie: "+cookieName+"="+canary+"; sid="+canary)...)
	}
	var failures []error
	fails := func(i authz.Identity, r *http.Request) {
		_, err := i.Identify(r)
		failures = append(failures, err)
	}
	for _, s := range []*authz.Session{short, none} {
		fails(s, r())
		fails(s, r("Authorization: Bearer "+canary, "X-Api-Key: "+canary))
		_, _, err := s.Newcomer(r(), canary, []byte(canary))
		failures = append(failures, err)
	}
	for _, i := range []authz.Identity{header, values} {
		fails(i, r("X-User: "+canary+"\x01"))
		fails(i, r("X-User: "+strings.Repeat(canary, 60)))
	}
	fails(header, r("X-User: "+canary, "X-User: "+canary))
	fails(header, r("X-User: "+canary))
	failures = append(failures, check.Check(r("Sec-Fetch-Site: cross-site", "Origin: https://"+canary+".example")))
	failures = append(failures, check.Check(r("Origin: https://"+canary+".example")))
	for i, err := range failures {
		if err == nil {
			t.Errorf("got no error for request %d, want one", i)
		} else if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) {
			t.Errorf("got %q, want it without what the request or the key holds", err)
		}
	}
}

// TestNoCallerShowsACredential holds promise 7.
func TestNoCallerShowsACredential(t *testing.T) {
	s := boundTo(t, authz.Source{In: authz.InCookie, Name: "sid"})
	script := identify(t, s, request("Authorization: Bearer "+canary, "Cookie: sid="+canary))
	keyed, cookie := newcomer(t, s, request("Cookie: sid="+canary), canary)
	for _, shown := range []string{fmt.Sprintf("%+v", script), fmt.Sprintf("%+v", keyed), cookie.String()} {
		if strings.Contains(shown, canary) {
			t.Errorf("got %s, want it without the credential", shown)
		}
	}
}
