package authz_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func everybody(*http.Request) bool { return true }

func TestHeaderNamesTheSubject(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tenant string // name of the tenant field
		fields []string
		want   authz.Subject
		err    error
	}{
		{"subject", "", []string{"X-User: alice"}, authz.Subject{Issuer: "header", Sub: "alice"}, nil},
		{"other capitals", "", []string{"x-uSER: alice"}, authz.Subject{Issuer: "header", Sub: "alice"}, nil},
		{"tenant", "x-tenant", []string{"X-User: alice", "X-Tenant: acme"}, authz.Subject{Issuer: "header", Tenant: "acme", Sub: "alice"}, nil},
		{"tenant that was not asked for", "", []string{"X-User: alice", "X-Tenant: acme"}, authz.Subject{Issuer: "header", Sub: "alice"}, nil},
		{"not ASCII", "", []string{"X-User: ålice, the 2nd"}, authz.Subject{Issuer: "header", Sub: "ålice, the 2nd"}, nil},
		{"longest", "", []string{"X-User: " + strings.Repeat("a", 255)}, authz.Subject{Issuer: "header", Sub: strings.Repeat("a", 255)}, nil},
		{"absent", "", nil, authz.Subject{}, authz.ErrNoCredentials},
		{"tenant absent", "X-Tenant", []string{"X-User: alice"}, authz.Subject{}, authz.ErrNoCredentials},
		{"subject absent beside a tenant", "X-Tenant", []string{"X-Tenant: acme"}, authz.Subject{}, authz.ErrNoCredentials},
		{"empty", "", []string{"X-User: "}, authz.Subject{}, authz.ErrBadCredentials},
		{"tenant empty", "X-Tenant", []string{"X-User: alice", "X-Tenant: "}, authz.Subject{}, authz.ErrBadCredentials},
		{"too long", "", []string{"X-User: " + strings.Repeat("a", 256)}, authz.Subject{}, authz.ErrBadCredentials},
		{"tenant too long", "X-Tenant", []string{"X-User: alice", "X-Tenant: " + strings.Repeat("a", 256)}, authz.Subject{}, authz.ErrBadCredentials},
		{"control character", "", []string{"X-User: al\tice"}, authz.Subject{}, authz.ErrBadCredentials},
		{"DEL", "", []string{"X-User: al\x7fice"}, authz.Subject{}, authz.ErrBadCredentials},
		{"C1 control", "", []string{"X-User: al\u0085ice"}, authz.Subject{}, authz.ErrBadCredentials},
		{"not UTF-8", "", []string{"X-User: al\xe9ce"}, authz.Subject{}, authz.ErrBadCredentials},
		{"two fields", "", []string{"X-User: alice", "X-User: bob"}, authz.Subject{}, authz.ErrBadCredentials},
		{"two equal fields", "", []string{"X-User: alice", "X-User: alice"}, authz.Subject{}, authz.ErrBadCredentials},
		{"two tenants", "X-Tenant", []string{"X-User: alice", "X-Tenant: a", "X-Tenant: b"}, authz.Subject{}, authz.ErrBadCredentials},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &authz.Header{Subject: "X-User", Tenant: tt.tenant, Trusted: everybody}
			got, err := h.Identify(request(tt.fields...))
			if !errors.Is(err, tt.err) || got.Subject != tt.want || got.Known != (tt.err == nil) {
				t.Errorf("got %+v and %v, want %+v and %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// Promise 4.
func TestHeaderOfAnUntrustedPeerIsNoCredential(t *testing.T) {
	fromProxy := func(r *http.Request) bool { return strings.HasPrefix(r.RemoteAddr, "10.") }
	for name, trusted := range map[string]func(*http.Request) bool{"nobody trusted": nil, "another trusted": fromProxy} {
		t.Run(name, func(t *testing.T) {
			h := &authz.Header{Subject: "X-User", Trusted: trusted}
			// Nor is the peer told whether the value would have been good.
			for _, value := range []string{"alice", "", "al\x01ice"} {
				r := request("X-User: "+value, "X-Forwarded-For: 10.0.0.1")
				if got, err := h.Identify(r); !errors.Is(err, authz.ErrNoCredentials) || got != (authz.Caller{}) {
					t.Errorf("got %+v and %v, want no credentials", got, err)
				}
			}
		})
	}
	r := request("X-User: alice")
	r.RemoteAddr = "10.0.0.1:1234"
	if got, err := (&authz.Header{Subject: "X-User", Trusted: fromProxy}).Identify(r); err != nil || got.Subject.Sub != "alice" {
		t.Errorf("got %+v and %v from a trusted peer, want alice", got, err)
	}
}

func TestHeaderWithoutANameIsNobody(t *testing.T) {
	h := &authz.Header{Trusted: everybody}
	if got, err := h.Identify(request("X-User: alice")); !errors.Is(err, authz.ErrNoCredentials) || got.Known {
		t.Errorf("got %+v and %v, want no credentials", got, err)
	}
}

func TestChallengesFollowRFC6750(t *testing.T) {
	for _, i := range []authz.Identity{&authz.Header{}, &authz.Values{}} {
		if got, want := i.Challenge(authz.ErrNoCredentials), `Bearer realm="agent runs"`; got != want {
			t.Errorf("got %q without credentials, want %q", got, want)
		}
		if got, want := i.Challenge(authz.ErrBadCredentials), `Bearer realm="agent runs", error="invalid_token"`; got != want {
			t.Errorf("got %q for bad credentials, want %q", got, want)
		}
	}
}
