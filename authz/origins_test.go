package authz_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func TestOriginsAreWrittenAsBrowsersDo(t *testing.T) {
	for in, want := range map[string]string{
		"https://app.example.com":      "https://app.example.com",
		"HTTPS://App.Example.COM":      "https://app.example.com",
		"https://app.example.com:443":  "https://app.example.com",
		"https://app.example.com:0443": "https://app.example.com",
		"https://app.example.com:80":   "https://app.example.com:80",
		"http://app.example.com:80":    "http://app.example.com",
		"http://localhost:3000":        "http://localhost:3000",
		"http://127.0.0.1:3000":        "http://127.0.0.1:3000",
		"http://[0:0:0:0:0:0:0:1]:80":  "http://[::1]",
		"https://xn--bcher-kva.ch":     "https://xn--bcher-kva.ch",
		"capacitor://localhost":        "capacitor://localhost",
	} {
		o, err := authz.ParseOrigins([]string{in})
		if err != nil || !slices.Equal(o.List(), []string{want}) {
			t.Errorf("got %q and %v for %q, want %q", o.List(), err, in, want)
		}
		if !o.Allow(want) {
			t.Errorf("got %q refused by %q, want it allowed", want, in)
		}
	}
}

func TestBadOriginsSayWhatWasFoundAndWhatIsAllowed(t *testing.T) {
	for in, why := range map[string]string{
		"":                             "no scheme",
		"null":                         "sandboxed page",
		"*":                            "wildcard",
		"https://*.example.com":        "wildcard",
		"app.example.com":              "no scheme",
		"localhost:3000":               "no scheme",
		"://app.example.com":           "no scheme",
		"//app.example.com":            "no scheme",
		"https://":                     "no host",
		"https://:443":                 "no host",
		"file:///":                     "path",
		"https://app.example.com/":     "path",
		"https://app.example.com/chat": "path",
		"https://app.example.com?":     "path, query or fragment",
		"https://app.example.com#":     "path, query or fragment",
		"https://app.example.com\\":    "path, query or fragment",
		"https://me@app.example.com":   "user information",
		"https://app.example.com:":     "no port between 1 and 65535",
		"https://app.example.com:0":    "no port between 1 and 65535",
		"https://app.example.com:x":    "no URL",
		"https://app.example.com:-1":   "no URL",
		"https://a.example:65536":      "no port between 1 and 65535",
		"https://bücher.ch":            "ASCII form",
		"https://a.example,b.example":  "ASCII form",
		"https://a b.example":          "no URL",
		"https://[fe80::1%25eth0]":     "no valid IPv6 address",
		"https://[1.2.3.4.5]":          "no URL",
		" https://app.example.com":     "no URL",
		"1https://app.example.com":     "no URL",
	} {
		o, err := authz.ParseOrigins([]string{in})
		if err == nil {
			t.Errorf("got %q for %q, want an error", o.List(), in)
			continue
		}
		for _, want := range []string{why, `got "` + strings.ReplaceAll(in, `\`, `\\`) + `"`, "allowed is scheme://host[:port]"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got error %q for %q, want it to say %q", err, in, want)
			}
		}
	}
}

func TestOriginsTellAllMistakesAtOnce(t *testing.T) {
	o, err := authz.ParseOrigins([]string{"*", "https://app.example.com", "null"})
	if err == nil || strings.Count(err.Error(), "origin: got") != 2 {
		t.Errorf("got %v, want two mistakes", err)
	}
	if got := o.List(); !slices.Equal(got, []string{"https://app.example.com"}) {
		t.Errorf("got %q, want the good one", got)
	}
}

// Promise 6.
func TestOnlyTheWholeOriginIsAllowed(t *testing.T) {
	o, err := authz.ParseOrigins([]string{"https://app.example.com", "http://localhost:3000"})
	if err != nil {
		t.Fatal(err)
	}
	for _, origin := range []string{
		"", "null", "*", "https://app.example.com.evil.example", "https://evil-app.example.com",
		"https://x.app.example.com", "https://example.com", "http://app.example.com", "https://app.example.com:8443",
		"https://app.example.com/", "https://app.example.com:443", "HTTPS://APP.EXAMPLE.COM",
		"https://app.example.com https://evil.example", "http://localhost", "http://localhost:30000",
	} {
		if o.Allow(origin) {
			t.Errorf("got %q allowed, want it refused", origin)
		}
	}
}

func TestNoOriginsAllowNothing(t *testing.T) {
	var o authz.Origins
	for _, origin := range []string{"", "null", "https://app.example.com"} {
		if o.Allow(origin) {
			t.Errorf("got %q allowed, want it refused", origin)
		}
	}
	if got := o.List(); len(got) != 0 {
		t.Errorf("got %q, want none", got)
	}
}
