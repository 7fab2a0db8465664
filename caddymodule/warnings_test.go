package caddymodule

import (
	"strings"
	"testing"
)

// The warnings, by a part of their text.
const (
	warnRetries   = "every retry may be a second paid generation"
	warnTimeout   = "write_timeout cuts the readers"
	warnCORS      = "unless identity session says same_site none"
	warnQuery     = "shows tokens in URLs"
	warnAnonymous = "identity anonymous lets everybody"
	warnGuard     = "without start only at what is recognisably one"
)

// TestProvisionWarns of what works and is likely a mistake, and of nothing
// else.
func TestProvisionWarns(t *testing.T) {
	const plain, retrying = "reverse_proxy localhost:1", "reverse_proxy localhost:1 {\nlb_retries 2\n}"
	const inURLs = "agent_runs {\nidentity jwt {\nissuer a\naudience b\nkey HS256 " + caseSecret + "\nquery access_token\n}\n}\n"
	for name, c := range map[string]struct {
		site, server string
		want         []string
	}{
		"nothing":                                         {site: "agent_runs\n" + plain},
		"a retrying proxy":                                {site: "agent_runs\n" + retrying, want: []string{warnRetries}},
		"a proxy that tries for a while":                  {site: "agent_runs\nreverse_proxy localhost:1 {\nlb_try_duration 5s\n}", want: []string{warnRetries}},
		"a retrying proxy in a block":                     {site: "agent_runs\nhandle /a/* {\nroute {\n" + retrying + "\n}\n}", want: []string{warnRetries}},
		"a retrying proxy in another block":               {site: "handle /a/* {\nagent_runs\n" + plain + "\n}\nhandle {\n" + retrying + "\n}"},
		"a retrying proxy in a block that is not reached": {site: "handle /a/* {\nagent_runs\n}\nhandle {\n" + retrying + "\n}"},
		"a retrying proxy behind one that answers":        {site: "route /a/* {\nagent_runs\n" + plain + "\n}\n" + retrying},
		"a retrying proxy behind the block":               {site: "route /a/* {\nagent_runs\n}\n" + retrying, want: []string{warnRetries}},
		"a retrying proxy before it":                      {site: "route {\n" + retrying + "\nagent_runs\n}"},
		"write_timeout":                                   {site: "agent_runs\n" + plain, server: "timeouts {\nwrite 1m\n}", want: []string{warnTimeout}},
		"cors and session":                                {site: "agent_runs {\ncors https://a.example\n}\n" + plain, want: []string{warnCORS}},
		"cors and session for other sites":                {site: "agent_runs {\ncors https://a.example\nidentity session {\nsame_site none\n}\n}\n" + plain},
		"cors and another identity":                       {site: "agent_runs {\ncors https://a.example\nidentity caddy\n}\n" + plain},
		"a guard that does not know the starts":           {site: "agent_runs {\nguard\n}\n" + plain, want: []string{warnGuard}},
		"a guard that does":                               {site: "agent_runs {\nstart POST /chat\nguard\n}\n" + plain},
		"anonymous":                                       {site: "agent_runs {\nidentity anonymous\n}\n" + plain, want: []string{warnAnonymous}},
		"tokens in URLs and an access log":                {site: "log\n" + inURLs + plain, want: []string{warnQuery}},
		"tokens in URLs without a log":                    {site: inURLs + plain},
		"two directives, one server":                      {site: "handle /a/* {\nagent_runs\n" + retrying + "\n}\nhandle {\nagent_runs\n" + retrying + "\n}", want: []string{warnRetries}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			g.server = c.server
			g.load(c.site)
			log := g.log()
			for _, warning := range []string{warnRetries, warnTimeout, warnCORS, warnAnonymous, warnQuery, warnGuard} {
				want := 0
				for _, w := range c.want {
					if w == warning {
						want = 1
					}
				}
				if got := strings.Count(log, warning); got != want {
					t.Errorf("warnings %q: got %d, want %d", warning, got, want)
				}
			}
		})
	}
}
