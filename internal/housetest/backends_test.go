package housetest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// TestEveryDialectHasASection in the document of backends, with all that is
// said of each.
func TestEveryDialectHasASection(t *testing.T) {
	text := read(t, "docs/backends.md")
	heads := regexp.MustCompile(`(?m)^## ([a-z0-9-]+)$`).FindAllStringSubmatchIndex(text, -1)
	var inText []string
	for i, at := range heads {
		name, end := text[at[2]:at[3]], len(text)
		inText = append(inText, name)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		for _, part := range []string{"```caddyfile\n", "\n* **Understood:** ", "\n* **Ids:** ", "\n* **Stop:** ", "\n* **Joined again:** ", "\n* **Not known:** "} {
			if section := text[at[0]:end]; !strings.Contains(section, part) {
				t.Errorf("docs/backends.md: section %s has no %q", name, part)
			}
		}
	}
	compare(t, "section", append(dialect.Names(), "custom"), inText, "docs/backends.md")
}
