package authz_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func always(value string) func(*http.Request) string {
	return func(*http.Request) string { return value }
}

func TestValuesNameTheSubject(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    authz.Values
		want authz.Subject
		err  error
	}{
		{"subject", authz.Values{Subject: always("alice")}, authz.Subject{Issuer: "caddy", Sub: "alice"}, nil},
		{"tenant", authz.Values{Subject: always("alice"), Tenant: always("acme")}, authz.Subject{Issuer: "caddy", Tenant: "acme", Sub: "alice"}, nil},
		{"empty", authz.Values{Subject: always("")}, authz.Subject{}, authz.ErrNoCredentials},
		{"tenant empty", authz.Values{Subject: always("alice"), Tenant: always("")}, authz.Subject{}, authz.ErrNoCredentials},
		{"too long", authz.Values{Subject: always(strings.Repeat("a", 256))}, authz.Subject{}, authz.ErrBadCredentials},
		{"line break", authz.Values{Subject: always("al\nice")}, authz.Subject{}, authz.ErrBadCredentials},
		{"tenant with line break", authz.Values{Subject: always("alice"), Tenant: always("ac\nme")}, authz.Subject{}, authz.ErrBadCredentials},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.v.Identify(request())
			if !errors.Is(err, tt.err) || got.Subject != tt.want || got.Known != (tt.err == nil) {
				t.Errorf("got %+v and %v, want %+v and %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestValuesComeFromTheRequest(t *testing.T) {
	v := &authz.Values{Subject: func(r *http.Request) string { return r.Header.Get("X-Resolved") }}
	alice, bob := identify(t, v, request("X-Resolved: alice")), identify(t, v, request("X-Resolved: bob"))
	otherParty(t, alice, bob)
}

func TestSameNameFromTwoIssuersIsTwoParties(t *testing.T) {
	header := identify(t, &authz.Header{Subject: "X-User", Trusted: everybody}, request("X-User: alice"))
	values := identify(t, &authz.Values{Subject: always("alice")}, request())
	otherParty(t, header, values)
}

// What established the caller may have removed its credential, so only one in
// sight that browsers do not add speaks against ambient.
func TestEstablishedCallersAreAmbientUnlessTheyShowAToken(t *testing.T) {
	withCertificate := request("Authorization: Bearer x")
	withCertificate.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	for _, tt := range []struct {
		name string
		r    *http.Request
		want bool
	}{
		{"nothing in sight", request("X-User: alice"), true},
		{"cookie", request("X-User: alice", "Cookie: a=1"), true},
		{"basic", request("X-User: alice", "Authorization: Basic eDp5"), true},
		{"basic in small letters", request("X-User: alice", "Authorization: basic eDp5"), true},
		{"digest", request("X-User: alice", `Authorization: Digest username="alice"`), true},
		{"token and cookie", request("X-User: alice", "Authorization: Bearer x", "Cookie: a=1"), true},
		{"token and client certificate", with(withCertificate, "X-User: alice"), true},
		{"token", request("X-User: alice", "Authorization: Bearer x"), false},
		{"key", request("X-User: alice", "X-Api-Key: x"), false},
		{"basic beside a key", request("X-User: alice", "X-Api-Key: x", "Authorization: Basic eDp5"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, i := range []authz.Identity{
				&authz.Header{Subject: "X-User", Trusted: everybody}, &authz.Values{Subject: always("alice")},
			} {
				if got := identify(t, i, tt.r); got.Ambient != tt.want || got.Shared || !got.Expires.IsZero() {
					t.Errorf("got %+v, want ambient %t, not shared, without expiry", got, tt.want)
				}
			}
		})
	}
}
