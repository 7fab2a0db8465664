package authz_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

const (
	ourOrigin    = "https://chat.example.com"
	listedOrigin = "https://app.example.com"
)

func crossSite(t *testing.T, origins ...string) *authz.CrossSite {
	t.Helper()
	c, err := authz.NewCrossSite(origins)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// from returns a request with what a browser says of its page; "-" is nothing.
func from(method, site, origin string) *http.Request {
	r := httptest.NewRequest(method, ourOrigin+"/api/chat", nil)
	if site != "-" {
		r.Header.Set("Sec-Fetch-Site", site)
	}
	if origin != "-" {
		r.Header.Set("Origin", origin)
	}
	return r
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// Promise 3. Rows are Origin, columns Sec-Fetch-Site, and a method changes nothing. The
// list holds one origin.
func TestCrossSiteMatrix(t *testing.T) {
	sites := []string{"-", "same-origin", "none", "same-site", "cross-site", "unknown"}
	rows := map[string]string{ // y is let in
		"-":                               "y y y n n n",
		ourOrigin:                         "y y y n n n",
		listedOrigin:                      "y y y y y y",
		"null":                            "n y y n n n",
		"https://evil.example":            "n y y n n n",
		"https://example.com":             "n y y n n n",
		"http://app.example.com":          "n y y n n n",
		"https://app.example.com:8443":    "n y y n n n",
		"https://app.example.com.evil.ex": "n y y n n n",
		"https://x.app.example.com":       "n y y n n n",
		"https://chat.example.com.evil":   "n y y n n n",
		"https://chat.example.com:8443":   "n y y n n n",
		"not an origin":                   "n y y n n n",
	}
	c := crossSite(t, listedOrigin)
	for origin, row := range rows {
		for i, want := range strings.Fields(row) {
			for _, method := range methods {
				t.Run(fmt.Sprintf("%s %s from %s", method, sites[i], origin), func(t *testing.T) {
					err := c.Check(from(method, sites[i], origin))
					if got := err == nil; got != (want == "y") {
						t.Errorf("got let in: %t (%v), want %s", got, err, want)
					}
					if err != nil && !errors.Is(err, authz.ErrCrossSite) {
						t.Errorf("got %v, want it to wrap %v", err, authz.ErrCrossSite)
					}
				})
			}
		}
	}
}

func TestWithoutAListOnlyOurOwnPagesAreLetIn(t *testing.T) {
	c := crossSite(t)
	if err := c.Check(from(http.MethodPost, "same-site", listedOrigin)); !errors.Is(err, authz.ErrCrossSite) {
		t.Errorf("got %v, want %v", err, authz.ErrCrossSite)
	}
	if err := c.Check(from(http.MethodPost, "-", ourOrigin)); err != nil {
		t.Errorf("got %v for our own page, want no error", err)
	}
}

// No browser names the site of its page twice. Which of the two counts is not
// guessed at.
func TestASiteThatIsNamedTwiceIsAnother(t *testing.T) {
	c := crossSite(t, listedOrigin)
	for _, twice := range []struct{ field, first, second string }{
		{"Origin", ourOrigin, "https://evil.example"}, {"Origin", listedOrigin, ourOrigin}, {"Sec-Fetch-Site", "same-origin", "cross-site"},
	} {
		r := from(http.MethodPost, "-", "-")
		r.Header[twice.field] = []string{twice.first, twice.second}
		if err := c.Check(r); !errors.Is(err, authz.ErrCrossSite) {
			t.Errorf("%v: got %v, want %v", twice, err, authz.ErrCrossSite)
		}
	}
}

// HTTP/1.0 needs no Host; "null" has no host either.
func TestRequestWithoutHostHasNoOriginOfItsOwn(t *testing.T) {
	c := crossSite(t, listedOrigin)
	for origin, want := range map[string]error{
		"null": authz.ErrCrossSite, "about:blank": authz.ErrCrossSite, ourOrigin: authz.ErrCrossSite, "-": nil, listedOrigin: nil,
	} {
		r := from(http.MethodPost, "-", origin)
		r.Host = ""
		if err := c.Check(r); !errors.Is(err, want) {
			t.Errorf("got %v for origin %q, want %v", err, origin, want)
		}
	}
	r := from(http.MethodPost, "same-origin", "null")
	r.Host = ""
	if err := c.Check(r); err != nil {
		t.Errorf("got %v where the browser itself says same-origin, want no error", err)
	}
}

func TestOurOriginHasOurPort(t *testing.T) {
	c := crossSite(t)
	r := from(http.MethodPost, "-", "http://localhost:8080")
	r.Host = "localhost:8080"
	if err := c.Check(r); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	r.Host = "localhost:3000"
	if err := c.Check(r); !errors.Is(err, authz.ErrCrossSite) {
		t.Errorf("got %v on another port, want %v", err, authz.ErrCrossSite)
	}
}

func TestCheckLeavesTheRequestAlone(t *testing.T) {
	r := from(http.MethodGet, "none", "-")
	if err := crossSite(t).Check(r); err != nil || r.Method != http.MethodGet {
		t.Errorf("got %v and method %s, want no error and GET", err, r.Method)
	}
}

func TestCrossSiteRefusesBadOrigins(t *testing.T) {
	for _, bad := range []string{"null", "*", "https://app.example.com/"} {
		if c, err := authz.NewCrossSite([]string{listedOrigin, bad}); err == nil || c != nil {
			t.Errorf("got %v and %v for %q, want only an error", c, err, bad)
		}
	}
}

func TestListedOriginMayBeWrittenInCapitals(t *testing.T) {
	c := crossSite(t, "HTTPS://App.Example.com:443")
	if err := c.Check(from(http.MethodPost, "cross-site", listedOrigin)); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestCrossSiteIsSafeForConcurrentUse(t *testing.T) {
	c := crossSite(t, listedOrigin)
	r := from(http.MethodGet, "cross-site", listedOrigin)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				if err := c.Check(r); err != nil {
					t.Errorf("got %v, want no error", err)
				}
			}
		})
	}
	wg.Wait()
}
