package caddymodule

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

const exampleFile = "../Caddyfile.example"

// TestExampleShowsEveryOption keeps Caddyfile.example complete: every option
// the parser knows stands in it, in use or in a comment.
func TestExampleShowsEveryOption(t *testing.T) {
	text := readExample(t)
	options := slices.Concat(
		slices.Collect(maps.Keys(handlerOptions)), slices.Collect(maps.Keys(idempotencyOptions)),
		slices.Collect(maps.Keys(limitOptions)), slices.Collect(maps.Keys(sessionOptions)),
		slices.Collect(maps.Keys(appOptions)), slices.Collect(maps.Keys(storeOptions)),
		slices.Collect(maps.Keys(redisOptions)), slices.Collect(maps.Keys(redisTLSOptions)),
		slices.Collect(maps.Keys(jwtOptions)), slices.Collect(maps.Keys(guardOptions)),
	)
	for _, option := range options {
		if !regexp.MustCompile(`(?m)^\t+(#\s+)?` + option + `( |$)`).MatchString(text) {
			t.Errorf("option %s: got no line in %s, want one", option, exampleFile)
		}
	}
	for _, kind := range []string{identitySession, identityHeader, identityCaddy, identityJWT, identityAnonymous} {
		if !regexp.MustCompile(`(?m)^\t+(#\t)?identity ` + kind).MatchString(text) {
			t.Errorf("identity %s: got no line in %s, want one", kind, exampleFile)
		}
	}
}

// TestExampleIsValid also adapts it: it must run as it stands.
func TestExampleIsValid(t *testing.T) {
	config, err := adapt(readExample(t))
	if err != nil {
		t.Fatalf("adapting %s: got %v, want no error", exampleFile, err)
	}
	if err := validate(t, config); err != nil {
		t.Errorf("validating %s: got %v, want no error", exampleFile, err)
	}
}

// TestExampleIsFormatted as `caddy fmt` does.
func TestExampleIsFormatted(t *testing.T) {
	text := readExample(t)
	if got := string(caddyfile.Format([]byte(text))); got != text {
		t.Errorf("%s after caddy fmt: got\n%s\nwant it unchanged", exampleFile, got)
	}
}

// TestCommentedOptionsAreValid tries every line of the example that is
// commented out in place of the one in use.
func TestCommentedOptionsAreValid(t *testing.T) {
	text := readExample(t)
	lines := regexp.MustCompile(`(?m)^(\t+)# ?(\t?)([a-z_]+( \S+)*)(   .*)?$`).FindAllStringSubmatch(text, -1)
	tried := 0
	for _, line := range lines {
		option, _, _ := cutOption(line[3])
		if _, ok := handlerOptions[option]; !ok && option != "forward" && option != "required" {
			continue // prose
		}
		if strings.HasSuffix(line[3], "{") {
			continue // only the whole block is valid
		}
		tried++
		if _, err := adapt(inPlace(option, line[3])); err != nil {
			t.Errorf("option %q, commented in %s: got %v, want no error", line[3], exampleFile, err)
		}
	}
	if tried < 5 {
		t.Errorf("commented options: tried %d, want 5 or more", tried)
	}
}

var optionLine = regexp.MustCompile(`^([a-z_]+)( .*)?$`)

func cutOption(line string) (name, rest string, ok bool) {
	m := optionLine.FindStringSubmatch(line)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// inPlace is a site with one option.
func inPlace(option, line string) string {
	if _, ok := handlerOptions[option]; !ok {
		line = "idempotency {\n" + line + "\n}"
	}
	return ":80 {\nagent_runs {\n" + line + "\n}\n}\n"
}

func readExample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExampleTokensAreValid tries the issuer that is commented out, with either
// kind of keys.
func TestExampleTokensAreValid(t *testing.T) {
	jwtEnvironment(t)
	block := regexp.MustCompile(`(?ms)^\t\t#\tidentity jwt .*?^\t\t#\t}$`).FindString(readExample(t))
	lines := regexp.MustCompile(`(?m)^\t\t#\t(\t?\S+( \S+)*)( {3}.*)?$`).ReplaceAllString(block, "$1")
	for _, other := range []string{"key", "jwks"} {
		site := regexp.MustCompile(`(?m)^\t`+other+` .*$`).ReplaceAllString(lines, "")
		if other == "jwks" {
			site = regexp.MustCompile(`(?m)^\talgorithms .*$`).ReplaceAllString(site, "")
		}
		config, err := adapt(inPlace("identity", site))
		if err != nil || !strings.Contains(string(config), "tenant_claim") {
			t.Fatalf("adapting\n%s\ngot %v and %s, want it with its options", site, err, config)
		}
		if err := validate(t, config); err != nil {
			t.Errorf("validating\n%s\ngot %v, want no error", site, err)
		}
	}
}

// TestExampleRedisIsValid tries the store that is commented out in place of the
// one in use.
func TestExampleRedisIsValid(t *testing.T) {
	redisEnvironment(t)
	t.Setenv("REDIS_USER", "agent-runs")
	block := regexp.MustCompile(`(?ms)^\t\t# (store redis .*?)^\t\t# sentinel_password_file.*?^\t\t# }$`).FindString(readExample(t))
	lines := regexp.MustCompile(`(?m)^\t\t# (\S+( \S+)*)( {3}.*)?$`).ReplaceAllString(block, "$1")
	for _, other := range []string{"user", "password_file", "ca", "cert", "key"} { // these need files, or an address without a user
		lines = regexp.MustCompile(`(?m)^`+other+` .*$`).ReplaceAllString(lines, "")
	}
	config, err := adapt("{\nagent_runs {\n" + lines + "\n}\n}\n")
	if err != nil || !strings.Contains(string(config), "mymaster") {
		t.Fatalf("adapting\n%s\ngot %v and %s, want it with its options", lines, err, config)
	}
	if err := validate(t, config); err != nil {
		t.Errorf("validating\n%s\ngot %v, want no error", lines, err)
	}
}
