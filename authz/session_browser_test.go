package authz_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func TestBrowserIsTheSamePartyFromPageLoadOn(t *testing.T) {
	s := session(t, options())
	first := s.PageLoad(navigation(), http.StatusOK, page())
	if first == nil {
		t.Fatal("got no cookie on the first page load, want one")
	}
	start := identify(t, s, request(carry(first), "Sec-Fetch-Site: same-origin", "Origin: https://chat.example.com"))
	read := identify(t, s, request(carry(first), "Sec-Fetch-Site: same-origin"))
	sameParty(t, read, start)
	if !start.Ambient || start.Shared || start.Subject.Issuer != "session" || start.Subject.Tenant != "" {
		t.Errorf("got %+v, want an ambient caller of its own, issued by session, without tenant", start)
	}
	if again := s.PageLoad(navigation(carry(first)), http.StatusOK, page()); again != nil {
		t.Errorf("got cookie %v on the second page load, want none", again)
	}
}

func TestBrowserWithoutPageLoadGetsItsCookieWithTheFirstRun(t *testing.T) {
	s := session(t, options())
	start, cookie := newcomer(t, s, request("Origin: https://chat.example.com"), "")
	if !start.Known || cookie == nil {
		t.Fatalf("got caller %+v and cookie %v, want both", start, cookie)
	}
	sameParty(t, identify(t, s, request(carry(cookie))), start)
}

func TestEveryNewcomerWithoutKeyIsAnotherParty(t *testing.T) {
	s := session(t, options())
	seen := map[string]bool{}
	for range 100 {
		c, _ := newcomer(t, s, request(), "")
		seen[c.Subject.Sub] = true
	}
	if len(seen) != 100 {
		t.Errorf("got %d subjects for 100 newcomers, want 100", len(seen))
	}
}

// Promises 1 and 3.
func TestRequestOfNobodyIsNoError(t *testing.T) {
	s := session(t, options())
	for _, tt := range []struct {
		name    string
		fields  []string
		ambient bool
	}{
		{"nothing at all", nil, false},
		{"browser", []string{"Sec-Fetch-Site: same-origin", "Origin: https://chat.example.com"}, false},
		{"browser with the application's cookie", []string{"Sec-Fetch-Site: same-origin", "Cookie: app=1"}, true},
		{"browser with a token of the page", []string{"Sec-Fetch-Site: same-origin", "Authorization: Bearer x"}, false},
		{"browser with basic authentication", []string{"Sec-Fetch-Site: none", "Authorization: basic eDp5"}, true},
		{"old browser with a token", []string{"Origin: https://chat.example.com", "X-Api-Key: x"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := identify(t, s, request(tt.fields...))
			if want := (authz.Caller{Ambient: tt.ambient}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestNewcomerIsAmbientOnlyWithSomethingAmbient(t *testing.T) {
	s := session(t, options())
	if c, _ := newcomer(t, s, request("Origin: https://x.example"), ""); c.Ambient {
		t.Error("got an ambient newcomer without cookies, want it not ambient")
	}
	if c, _ := newcomer(t, s, request("Origin: https://x.example", "Cookie: app=1"), ""); !c.Ambient {
		t.Error("got a newcomer with the application's cookie that is not ambient, want it ambient")
	}
}

func TestOnlyPageLoadsGetACookie(t *testing.T) {
	s := session(t, options())
	for _, tt := range []struct {
		name   string
		r      *http.Request
		status int
		header http.Header
		want   bool
	}{
		{"page", navigation(), 200, page(), true},
		{"created page", navigation(), 201, page(), true},
		{"page in capitals", navigation(), 200, http.Header{"Content-Type": {"TEXT/HTML"}}, true},
		{"redirect", navigation(), 302, page(), false},
		{"not modified", navigation(), 304, page(), false},
		{"not found", navigation(), 404, page(), false},
		{"early hints", navigation(), 103, page(), false},
		{"data", navigation(), 200, http.Header{"Content-Type": {"application/json"}}, false},
		{"a type that begins alike", navigation(), 200, http.Header{"Content-Type": {"text/html-sandboxed"}}, false},
		{"no type", navigation(), 200, http.Header{}, false},
		{"fetch of a page", request("Sec-Fetch-Mode: cors"), 200, page(), false},
		{"script that reads a page", request(), 200, page(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.PageLoad(tt.r, tt.status, tt.header) != nil; got != tt.want {
				t.Errorf("got a cookie: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestPageThatSharedCachesKeepGetsNoCookie(t *testing.T) {
	s := session(t, options())
	for _, tt := range []struct {
		field string
		want  bool
	}{
		{"Cache-Control: private", true},
		{"Cache-Control: no-store", true},
		{"Cache-Control: no-cache", true},
		{"Cache-Control: private, max-age=60", true},
		{"Cache-Control: max-age=0, must-revalidate", true},
		{"Cache-Control: public", false},
		{"Cache-Control: Public, Max-Age=0", false},
		{"Cache-Control: s-maxage=31536000, stale-while-revalidate", false},
		{"Cache-Control: max-age=60", false},
		{"Cache-Control: max-age=\"60\"", false},
		{"Cache-Control: immutable", false},
		{"CDN-Cache-Control: max-age=60", false},
	} {
		t.Run(tt.field, func(t *testing.T) {
			if got := s.PageLoad(navigation(), http.StatusOK, page(tt.field)) != nil; got != tt.want {
				t.Errorf("got a cookie: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestSessionNeverAsksForCredentials(t *testing.T) {
	s := session(t, options())
	if got := s.Challenge(authz.ErrNoCredentials); got != "" {
		t.Errorf("got challenge %q, want none", got)
	}
}

func TestSubjectDoesNotShowTheCookie(t *testing.T) {
	s := session(t, options())
	c, cookie := newcomer(t, s, request(), "")
	if strings.Contains(cookie.Value, c.Subject.Sub) || strings.Contains(c.Subject.Sub, cookie.Value) {
		t.Errorf("got sub %q in cookie %q, want them apart", c.Subject.Sub, cookie.Value)
	}
}
