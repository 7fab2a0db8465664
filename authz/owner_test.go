package authz_test

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func TestOwnerIsTheSameInAllParts(t *testing.T) {
	owner := authz.Subject{Tenant: "acme", Issuer: "caddy", Sub: "alice"}
	for _, tt := range []struct {
		name          string
		caller, owner authz.Subject
		want          bool
	}{
		{"same", owner, owner, true},
		{"sub", authz.Subject{Tenant: "acme", Issuer: "caddy", Sub: "bob"}, owner, false},
		{"sub in capitals", authz.Subject{Tenant: "acme", Issuer: "caddy", Sub: "Alice"}, owner, false},
		{"issuer", authz.Subject{Tenant: "acme", Issuer: "header", Sub: "alice"}, owner, false},
		{"tenant", authz.Subject{Tenant: "umbrella", Issuer: "caddy", Sub: "alice"}, owner, false},
		{"no tenant", authz.Subject{Issuer: "caddy", Sub: "alice"}, owner, false},
		{"nobody", authz.Subject{}, owner, false},
		{"run of nobody", owner, authz.Subject{}, false},
		{"nobody and run of nobody", authz.Subject{}, authz.Subject{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := authz.Owns(tt.caller, tt.owner); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func TestPseudonymStandsForASubject(t *testing.T) {
	alice := authz.Subject{Tenant: "acme", Issuer: "caddy", Sub: "alice"}
	got := authz.Pseudonym(secret, alice)
	if again := authz.Pseudonym(secret, alice); again != got {
		t.Errorf("got %q and %q for one subject, want one pseudonym", got, again)
	}
	if len(got) != 22 || strings.Contains(got, "alice") {
		t.Errorf("got %q, want 22 characters that do not show the subject", got)
	}
	seen := map[string]authz.Subject{got: alice}
	for _, s := range []authz.Subject{
		{Tenant: "acme", Issuer: "caddy", Sub: "bob"},
		{Tenant: "acme", Issuer: "header", Sub: "alice"},
		{Tenant: "", Issuer: "caddy", Sub: "alice"},
		{Tenant: "acmecaddy", Issuer: "", Sub: "alice"},
		{Tenant: "acme", Issuer: "caddyalice", Sub: ""},
	} {
		p := authz.Pseudonym(secret, s)
		if other, ok := seen[p]; ok {
			t.Errorf("got pseudonym %q for %+v and %+v, want two", p, s, other)
		}
		seen[p] = s
	}
}

func TestPseudonymNeedsTheSecret(t *testing.T) {
	alice := authz.Subject{Issuer: "caddy", Sub: "alice"}
	if one, other := authz.Pseudonym(secret, alice), authz.Pseudonym([]byte("other"), alice); one == other {
		t.Errorf("got %q under two secrets, want two pseudonyms", one)
	}
}

func TestNobodyHasNoPseudonym(t *testing.T) {
	if got := authz.Pseudonym(secret, authz.Subject{}); got != "" {
		t.Errorf("got %q, want none", got)
	}
}
