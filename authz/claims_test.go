package authz_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

func claims(t *testing.T, text string) *authz.Claims {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatal(err)
	}
	return authz.ClaimsOf(members)
}

func TestClaimsListTheirStrings(t *testing.T) {
	c := claims(t, `{"scope":"runs:read  runs:stop","conversations":["conv-1","conv 2",3,null,"*"],"empty":"","none":[],
		"number":7,"null":null,"realm_access":{"roles":["admin"]},"https://a.example/roles":["dotted"],"a.b":"flat","a":{"b":"deep"}}`)
	for name, want := range map[string][]string{
		"scope":                   {"runs:read", "runs:stop"},
		"conversations":           {"conv-1", "conv 2", "*"},
		"empty":                   nil,
		"none":                    nil,
		"number":                  nil,
		"null":                    nil,
		"absent":                  nil,
		"":                        nil,
		"realm_access":            nil,
		"realm_access.roles":      {"admin"},
		"realm_access.absent":     nil,
		"scope.runs":              nil,
		"https://a.example/roles": {"dotted"},
		"a.b":                     {"flat"},
	} {
		if got := c.Values(name); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	var none *authz.Claims
	if got := none.Values("scope"); len(got) > 0 {
		t.Errorf("no claims: got %q, want none", got)
	}
}

func TestPrintedCallerHidesItsClaims(t *testing.T) {
	c := authz.Caller{Claims: claims(t, `{"email":"`+canary+`"}`)}
	if shown := fmt.Sprintf("%v %+v", c, c); strings.Contains(shown, canary) {
		t.Errorf("got %s, want it without claims", shown)
	}
}
