package authz_test

import (
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func boundTo(t *testing.T, sources ...authz.Source) *authz.Session {
	t.Helper()
	o := options()
	o.Bind = sources
	return session(t, o)
}

func TestLogoutChangesTheSubject(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source authz.Source
		in     string // field of a request with the credential, up to its value
	}{
		{"cookie", authz.Source{In: authz.InCookie, Name: "sid"}, "Cookie: theme=dark; sid="},
		{"header", authz.Source{In: authz.InHeader, Name: "x-login"}, "X-Login: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := boundTo(t, tt.source)
			_, cookie := newcomer(t, s, request(), "")
			alice := identify(t, s, request(tt.in+"alice", carry(cookie)))
			sameParty(t, identify(t, s, request(carry(cookie), tt.in+"alice", "Cookie: other=1")), alice)
			out := identify(t, s, request(carry(cookie)))
			empty := identify(t, s, request(carry(cookie), tt.in))
			bob := identify(t, s, request(carry(cookie), tt.in+"bob"))
			for _, pair := range [][2]authz.Caller{{alice, out}, {alice, bob}, {alice, empty}, {out, empty}, {out, bob}, {empty, bob}} {
				otherParty(t, pair[0], pair[1])
			}
		})
	}
}

// net/http does not show cookies with such bytes at all.
func TestBoundCookieMayHoldAnyBytes(t *testing.T) {
	s := boundTo(t, authz.Source{In: authz.InCookie, Name: "sid"})
	_, cookie := newcomer(t, s, request(), "")
	alice := identify(t, s, request(carry(cookie), `Cookie: sid={"user": "älice", "n": 1}`))
	bob := identify(t, s, request(carry(cookie), `Cookie: sid={"user": "bob", "n": 1}`))
	otherParty(t, alice, bob)
}

func TestSecondBoundCookieCannotHideTheFirst(t *testing.T) {
	s := boundTo(t, authz.Source{In: authz.InCookie, Name: "sid"})
	_, cookie := newcomer(t, s, request(), "")
	one := identify(t, s, request(carry(cookie), "Cookie: sid=a"))
	both := identify(t, s, request(carry(cookie), "Cookie: sid=a; sid=b"))
	otherParty(t, both, one)
}

func TestValuesOfSeveralSourcesDoNotRunTogether(t *testing.T) {
	s := boundTo(t, authz.Source{In: authz.InCookie, Name: "a"}, authz.Source{In: authz.InHeader, Name: "B"})
	_, cookie := newcomer(t, s, request(), "")
	one := identify(t, s, request(carry(cookie), "Cookie: a=1"))
	other := identify(t, s, request(carry(cookie), "B: 1"))
	otherParty(t, one, other)
	two := identify(t, s, request(carry(cookie), "Cookie: a=1; a=2"))
	parted := identify(t, s, request(carry(cookie), "Cookie: a=1", "B: 2"))
	otherParty(t, two, parted)
}

func TestBindingHoldsForScriptsAndKeyedStarts(t *testing.T) {
	s := boundTo(t, authz.Source{In: authz.InHeader, Name: "X-Login"})
	script := func(login string) authz.Caller {
		return identify(t, s, request("x-api-key: sk-1", "X-Login: "+login))
	}
	sameParty(t, script("alice"), script("alice"))
	otherParty(t, script("alice"), script("bob"))

	alice, aliceCookie := newcomer(t, s, request("X-Login: alice"), "key-1")
	bob, bobCookie := newcomer(t, s, request("X-Login: bob"), "key-1")
	otherParty(t, alice, bob)
	sameParty(t, identify(t, s, request(carry(aliceCookie), "X-Login: alice")), alice)
	// Nor do they become one when both log out.
	otherParty(t, identify(t, s, request(carry(aliceCookie))), identify(t, s, request(carry(bobCookie))))
}

func TestLoginChangesTheSubjectAndNotTheCookie(t *testing.T) {
	s := boundTo(t, authz.Source{In: authz.InCookie, Name: "sid"})
	cookie := s.PageLoad(navigation(), http.StatusOK, page())
	before := identify(t, s, request(carry(cookie), "Cookie: sid=alice"))
	if again := s.PageLoad(navigation(carry(cookie), "Cookie: sid=bob"), http.StatusOK, page()); again != nil {
		t.Errorf("got a new cookie %v after a login, want the old one kept", again)
	}
	otherParty(t, identify(t, s, request(carry(cookie), "Cookie: sid=bob")), before)
	sameParty(t, identify(t, s, request(carry(cookie), "Cookie: sid=alice")), before)
}
