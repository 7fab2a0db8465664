package housetest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-agent-runs/caddy-agent-runs/caddymodule"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
)

// anchorOf is what GitHub makes of a heading.
func anchorOf(title string) string {
	title = strings.ToLower(strings.NewReplacer("`", "", ",", "", ".", "", ":", "", "(", "", ")", "", "/", "", "'", "").Replace(title))
	return strings.ReplaceAll(strings.TrimSpace(title), " ", "-")
}

func hasAnchor(text, anchor string) bool {
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		if anchorOf(match[1]) == anchor {
			return true
		}
	}
	return false
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	for _, name := range files(t, isMarkdown) {
		text := read(t, name)
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := path.Join(path.Dir(name), target)
			if target == "" {
				file = name
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: link %s: %v", name, match[1], err)
				continue
			}
			if anchor != "" && !hasAnchor(read(t, file), anchor) {
				t.Errorf("%s: link %s: got no such heading", name, match[1])
			}
		}
	}
}

var caddyfiles = regexp.MustCompile("(?s)```caddyfile\n(.*?)```")

func TestCaddyfilesInDocumentsAreValid(t *testing.T) {
	found := 0
	for _, name := range files(t, isMarkdown) {
		for _, match := range caddyfiles.FindAllStringSubmatch(read(t, name), -1) {
			found++
			config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(match[1]), map[string]any{"filename": name})
			if err != nil {
				t.Errorf("%s: %v in\n%s", name, err, match[1])
				continue
			}
			if len(warnings) > 0 && !strings.Contains(warnings[0].Message, "not formatted") {
				t.Errorf("%s: got warnings %v for\n%s", name, warnings, match[1])
			}
			if !strings.Contains(string(config), `"handler":"agent_runs"`) {
				t.Errorf("%s: got no agent_runs in\n%s", name, match[1])
			}
		}
	}
	if found == 0 {
		t.Error("found no Caddyfile in the documents")
	}
}

var (
	release    = regexp.MustCompile(`^## \[(Unreleased|\d+\.\d+\.\d+)\]( - \d{4}-\d{2}-\d{2})?$`)
	changeKind = regexp.MustCompile(`^### (Added|Changed|Deprecated|Removed|Fixed|Security)$`)
)

func TestChangelogHasTheFormItNames(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	if !strings.HasPrefix(text, "# Changelog\n") || !strings.Contains(text, "https://keepachangelog.com/") {
		t.Error("CHANGELOG.md: got no title or no link to Keep a Changelog")
	}
	unreleased := 0
	for n, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			match := release.FindStringSubmatch(line)
			if match == nil || (match[1] == "Unreleased") != (match[2] == "") {
				t.Errorf("CHANGELOG.md:%d: got %q, want [Unreleased], or a version and its date", n+1, line)
				continue
			}
			if match[1] == "Unreleased" {
				unreleased++
			}
		case strings.HasPrefix(line, "### ") && !changeKind.MatchString(line):
			t.Errorf("CHANGELOG.md:%d: got %q, want one of the six kinds", n+1, line)
		}
	}
	if unreleased != 1 {
		t.Errorf("CHANGELOG.md: got %d sections for what is unreleased, want 1", unreleased)
	}
}

// targets are the words after make in the text of CONTRIBUTING.md and .ci/run.
var targets = regexp.MustCompile(`(?m)(?:^|[\x60(; ])make ([a-z][a-z-]*)`)

func TestMakeTargetsThatDocumentsNameExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, name := range []string{"CONTRIBUTING.md", "README.md", ".ci/run", "docs/operations.md"} {
		for _, match := range targets.FindAllStringSubmatch(read(t, name), -1) {
			if !strings.Contains(makefile, "\n"+match[1]+":") && !strings.HasPrefix(makefile, match[1]+":") && match[1] != "make" {
				t.Errorf("%s: got make %s, which the Makefile does not have", name, match[1])
			}
		}
	}
}
