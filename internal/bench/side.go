package main

import (
	"fmt"
	"strings"
)

// side is one of the gateways that are compared.
type side struct {
	name string
	// directive is what stands before reverse_proxy.
	directive string
	// numbered tells that it puts its own ids into the frames.
	numbered bool
}

var (
	plain = side{name: "plain"}
	ours  = side{name: "ours", directive: "agent_runs", numbered: true}
)

// caddyfile returns the whole configuration: the same for both sides but for
// one line.
func (s side) caddyfile(listen, upstream string) string {
	var b strings.Builder
	b.WriteString("{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tgrace_period 1s\n}\n")
	fmt.Fprintf(&b, "http://%s {\n", listen)
	if s.directive != "" {
		fmt.Fprintf(&b, "\t%s\n", s.directive)
	}
	fmt.Fprintf(&b, "\treverse_proxy %s\n}\n", upstream)
	return b.String()
}
