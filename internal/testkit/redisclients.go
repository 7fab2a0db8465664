package testkit

import "strings"

// Clients are the connections to the server but for the one that asks, as
// CLIENT LIST tells them.
func (r *Redis) Clients() []string {
	r.t.Helper()
	text, _ := r.Do("CLIENT", "LIST").(string)
	var others []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "cmd=client") {
			others = append(others, strings.TrimSpace(line))
		}
	}
	return others
}
