package authz_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func TestAnonymousIsOneSharedParty(t *testing.T) {
	var a authz.Anonymous
	script, browser := identify(t, a, request("X-Api-Key: x")), identify(t, a, request("Cookie: a=1"))
	sameParty(t, script, browser)
	if want := (authz.Subject{Issuer: "anonymous", Sub: "anonymous"}); script.Subject != want {
		t.Errorf("got %+v, want %+v", script.Subject, want)
	}
	if !script.Shared || !browser.Shared {
		t.Errorf("got %+v and %+v, want both shared", script, browser)
	}
	if script.Ambient || !browser.Ambient {
		t.Errorf("got ambient %t and %t, want it with cookies only", script.Ambient, browser.Ambient)
	}
	if got := a.Challenge(authz.ErrNoCredentials); got != "" {
		t.Errorf("got challenge %q, want none", got)
	}
}
