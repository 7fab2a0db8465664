package chain

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// authUser is what Caddy's authentication sets. Handlers read it although no
// configuration names it: php_fastcgi makes REMOTE_USER of it.
const authUser = "http.auth.user.id"

var placeholder = regexp.MustCompile(`\{([a-zA-Z][\w.:/-]*)\}`)

// ownPlaceholders are known to every request by itself.
var ownPlaceholders = []string{
	"http.request.", "http.vars.", "http.response.", "http.reverse_proxy.", "http.intercept.", "http.error.",
	"http.agent_runs.", "http.shutting_down", "http.time_until_shutdown", "env.", "file.", "system.", "time.",
}

// scanPlaceholders collects the placeholders that a configuration names. Those
// of a request cannot be listed, so what may be needed later has to be known
// by name.
func scanPlaceholders(raw []json.RawMessage, names map[string]bool) {
	for _, text := range raw {
		for _, match := range placeholder.FindAllSubmatch(text, -1) {
			name := string(match[1])
			own := slices.ContainsFunc(ownPlaceholders, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
			if !own {
				names[name] = true
			}
		}
	}
}
