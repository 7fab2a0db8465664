package authz_test

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func TestScriptStartsAndResumesWithoutACookieJar(t *testing.T) {
	s := session(t, options())
	for _, credential := range []string{
		"Authorization: Bearer sk-1", "x-api-key: sk-1", "api-key: sk-1", "x-goog-api-key: sk-1",
		"Authorization: Basic eDp5", "Authorization: sk-1",
	} {
		t.Run(credential, func(t *testing.T) {
			start := identify(t, s, request(credential))
			read := identify(t, s, with(request(credential, "Last-Event-ID: x"), "Accept: text/event-stream"))
			sameParty(t, read, start)
			sameParty(t, identify(t, session(t, options()), request(credential)), start)
		})
	}
}

func TestScriptIsAmbientOnlyWithACredentialThatBrowsersAdd(t *testing.T) {
	s := session(t, options())
	for credential, want := range map[string]bool{
		"Authorization: Basic eDp5":    true,
		"Authorization: basic eDp5":    true,
		"Authorization: Negotiate abc": true,
		"Authorization: Bearer abc":    false,
		"x-api-key: abc":               false,
	} {
		if got := identify(t, s, request(credential)); got.Ambient != want || !got.Known {
			t.Errorf("got %+v for %q, want known and ambient %t", got, credential, want)
		}
	}
}

func TestScriptsWithDifferentCredentialsAreDifferentParties(t *testing.T) {
	s := session(t, options())
	seen := map[string][]string{}
	for _, fields := range [][]string{
		{"Authorization: Bearer sk-1"},
		{"Authorization: Bearer sk-2"},
		{"Authorization: sk-1"},
		{"x-api-key: sk-1"},
		{"api-key: sk-1"},
		{"x-goog-api-key: sk-1"},
		{"Authorization: Bearer sk-1", "x-api-key: sk-1"},
		{"x-api-key: sk-1", "api-key: sk-1"},
		{"x-api-key: sk-1", "x-api-key: sk-2"},
		{"x-api-key: sk-1sk-2"},
		{"x-api-key: sk-1, sk-2"},
	} {
		c := identify(t, s, request(fields...))
		if other, ok := seen[c.Subject.Sub]; ok || !c.Known {
			t.Errorf("got subject %+v for %q and %q, want two", c.Subject, fields, other)
		}
		seen[c.Subject.Sub] = fields
	}
}

// A script whose key is not set sends what all such scripts send.
func TestBlankCredentialIsNone(t *testing.T) {
	s := session(t, options())
	for _, fields := range [][]string{
		{"Authorization: "}, {"Authorization: Bearer"}, {"Authorization: bearer "}, {"Authorization: Basic"}, {"x-api-key: "},
	} {
		if got := identify(t, s, request(fields...)); got.Known {
			t.Errorf("got subject %+v for %q, want nobody", got.Subject, fields)
		}
	}
}

func TestIdentifyLeavesTheRequestAlone(t *testing.T) {
	r := request("X-Api-Key: ", "X-Api-Key: sk-1", "Cookie: agent-runs=x; a=1")
	want := r.Header.Clone()
	identify(t, session(t, options()), r)
	if !reflect.DeepEqual(r.Header, want) {
		t.Errorf("got header %q, want %q", r.Header, want)
	}
}

func TestCredentialInABrowserIsNoSubject(t *testing.T) {
	s := session(t, options())
	for _, sign := range []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site", "Origin: https://chat.example.com", "Origin: null"} {
		if got := identify(t, s, request("Authorization: Bearer sk-1", sign)); got.Known {
			t.Errorf("got subject %+v with %q, want nobody", got.Subject, sign)
		}
	}
}

func TestCookieWinsOverAScriptsCredential(t *testing.T) {
	s := session(t, options())
	own, cookie := newcomer(t, s, request(), "")
	sameParty(t, identify(t, s, request(carry(cookie), "Authorization: Bearer sk-1")), own)
	otherParty(t, identify(t, s, request("Cookie: "+cookieName+"=forged", "Authorization: Bearer sk-1")), own)
}

func TestRetryWithTheSameKeyIsTheSameParty(t *testing.T) {
	s := session(t, options())
	first, cookie := newcomer(t, s, request(), "key-1")
	retry, _ := newcomer(t, session(t, options()), request(), "key-1")
	sameParty(t, retry, first)
	sameParty(t, identify(t, s, request(carry(cookie))), first)
}

func TestAnythingElseInAKeyedStartIsAnotherParty(t *testing.T) {
	s := session(t, options())
	first, _ := newcomer(t, s, request(), "key-1")
	for _, tt := range []struct {
		name, key, fingerprint string
		r                      *http.Request
	}{
		{"key", "key-2", "fingerprint", request()},
		{"request", "key-1", "another", request()},
		{"border of key and request", "key-1f", "ingerprint", request()},
		{"no key", "", "fingerprint", request()},
		{"token of the page", "key-1", "fingerprint", request("Origin: https://chat.example.com", "Authorization: Bearer sk-1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := s.Newcomer(tt.r, tt.key, []byte(tt.fingerprint))
			if err != nil {
				t.Fatal(err)
			}
			otherParty(t, c, first)
		})
	}
}

func TestPurposesOfTheKeyStayApart(t *testing.T) {
	s := session(t, options())
	keyed, _ := newcomer(t, s, request(), "sk-1")
	script := identify(t, s, request("x-api-key: sk-1"))
	otherParty(t, script, keyed)
	if got := authz.Pseudonym(secret, script.Subject); got == script.Subject.Sub {
		t.Errorf("got pseudonym %q, want another than the sub", got)
	}
}
