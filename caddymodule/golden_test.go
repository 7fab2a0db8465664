package caddymodule

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// A golden file holds cases that belong together. A case is a line "== title",
// the input, a line of dashes, and what comes out: JSON, or "error: ..." with
// the text an operator sees. Text before the first case is prose.

// goldenCase is one case of a file.
type goldenCase struct{ title, input, want string }

const dashes = "----------"

func readGolden(t *testing.T, file string) (prose string, cases []goldenCase) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prose, rest, _ := strings.Cut("\n"+string(text), "\n== ")
	for part := range strings.SplitSeq(rest, "\n== ") {
		title, body, _ := strings.Cut(part, "\n")
		input, want, ok := strings.Cut(body, "\n"+dashes+"\n")
		if !ok {
			t.Fatalf("%s: case %q has no line of dashes", file, title)
		}
		cases = append(cases, goldenCase{title, input, strings.TrimSpace(want)})
	}
	return strings.TrimSpace(prose), cases
}

func writeGolden(t *testing.T, file, prose string, cases []goldenCase) {
	t.Helper()
	var b strings.Builder
	b.WriteString(prose + "\n")
	for _, c := range cases {
		fmt.Fprintf(&b, "\n== %s\n%s\n%s\n%s\n", c.title, strings.TrimSpace(c.input), dashes, c.want)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runGolden compares what f makes of every case with what its file says.
func runGolden(t *testing.T, pattern string, f func(t *testing.T, input string) string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files %s: got %v, %v, want some", pattern, files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			prose, cases := readGolden(t, file)
			for i, c := range cases {
				t.Run(c.title, func(t *testing.T) {
					got := strings.TrimSpace(f(t, strings.TrimSpace(c.input)+"\n"))
					if *update {
						cases[i].want = got
					} else if got != c.want {
						t.Errorf("got\n%s\nwant\n%s", got, c.want)
					}
				})
			}
			if *update {
				writeGolden(t, file, prose, cases)
			}
		})
	}
}

// TestCaddyfileAdapts compares the JSON of every subdirective, and the message
// of every mistake, with testdata/adapt. What adapts must also be valid.
func TestCaddyfileAdapts(t *testing.T) {
	redisEnvironment(t)
	jwtEnvironment(t)
	runGolden(t, "testdata/adapt/*.caddyfiletest", func(t *testing.T, input string) string {
		config, err := adapt(input)
		if err != nil {
			return "error: " + err.Error()
		}
		if err := validate(t, config); err != nil {
			t.Errorf("validating what was adapted: got %v, want no error", err)
		}
		return ours(t, config)
	})
}

// TestWholeConfiguration compares whole configurations: where the directive
// stands among others, and what a route of it looks like.
func TestWholeConfiguration(t *testing.T) {
	runGolden(t, "testdata/order/*.caddyfiletest", func(t *testing.T, input string) string {
		config, err := adapt(input)
		if err != nil {
			return "error: " + err.Error()
		}
		return indent(t, config)
	})
}

// TestJSONIsHeldToTheSameRules feeds handlers and apps as JSON. The error is
// what Caddy says when it loads the configuration.
func TestJSONIsHeldToTheSameRules(t *testing.T) {
	runGolden(t, "testdata/json/*.jsontest", func(t *testing.T, input string) string {
		if err := validate(t, []byte(input)); err != nil {
			return "error: " + err.Error()
		}
		return "valid"
	})
}

func adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// validate does what `caddy validate` does, without its logs.
func validate(t *testing.T, config []byte) error {
	t.Helper()
	var cfg *caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &cfg); err != nil {
		t.Fatalf("decoding configuration: %v", err)
	}
	cfg.Logging = silence()
	if cfg.StorageRaw == nil {
		cfg.StorageRaw = fileStorage(t)
	}
	return caddy.Validate(cfg)
}

// ours returns the parts of a configuration that are of this module.
func ours(t *testing.T, config []byte) string {
	t.Helper()
	var whole any
	if err := json.Unmarshal(config, &whole); err != nil {
		t.Fatal(err)
	}
	var parts []string
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			if app, ok := v["agent_runs"]; ok {
				parts = append(parts, "app "+indentValue(t, app))
			}
			if v["handler"] == "agent_runs" {
				delete(v, "handler")
				parts = append(parts, "handler "+indentValue(t, v))
				return
			}
			for _, name := range sortedKeys(v) {
				visit(v[name])
			}
		}
	}
	visit(whole)
	return strings.Join(parts, "\n")
}

func indentValue(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return indent(t, text)
}

func indent(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
