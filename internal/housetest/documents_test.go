package housetest

import (
	"go/ast"
	"go/token"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// stringsIn returns the values of all string literals of a file that pattern
// matches whole.
func (f goFile) stringsIn(pattern *regexp.Regexp) []string {
	var found []string
	ast.Inspect(f.File, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && pattern.MatchString(text) {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}

// compare fails for everything that is in one list and not in the other.
func compare(t *testing.T, what string, inCode, inText []string, text string) {
	t.Helper()
	if len(inCode) == 0 {
		t.Fatalf("found no %s in the code", what)
	}
	for _, name := range inCode {
		if !slices.Contains(inText, name) {
			t.Errorf("%s: got no %s %q, which the code has", text, what, name)
		}
	}
	for _, name := range inText {
		if !slices.Contains(inCode, name) {
			t.Errorf("%s: got %s %q, which the code does not have", text, what, name)
		}
	}
}

var metricName = regexp.MustCompile(`^caddy_agent_runs_[a-z_]+$`)

func TestMetricsAndTheirDocumentAgree(t *testing.T) {
	inCode := parse(t, "proxy/metrics.go").stringsIn(metricName)
	var inText []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(caddy_agent_runs_[a-z_]+)`").FindAllStringSubmatch(read(t, "docs/operations.md"), -1) {
		inText = append(inText, match[1])
	}
	compare(t, "metric", inCode, inText, "docs/operations.md")
}

// problem is a problem code and its status, as a name of net/http.
var problemHeading = regexp.MustCompile(`(?m)^### ([a-z_]+)\n(\d{3}) ([A-Za-z ]+)\.`)

func TestProblemsAndTheirDocumentAgree(t *testing.T) {
	statuses := statusOfCodes(parse(t, "proxy/problem.go"))
	_, section, found := strings.Cut(read(t, "docs/protocol.md"), "\n## Problems\n")
	if !found {
		t.Fatal("docs/protocol.md: got no section of problems")
	}
	var inText []string
	for _, match := range problemHeading.FindAllStringSubmatch(section, -1) {
		code, number, phrase := match[1], match[2], match[3]
		inText = append(inText, code)
		if want := strings.ReplaceAll(phrase, " ", ""); statuses[code] != want {
			t.Errorf("docs/protocol.md: got status %s for %s, the code has %q", phrase, code, statuses[code])
		}
		if n, err := strconv.Atoi(number); err != nil || http.StatusText(n) != phrase {
			t.Errorf("docs/protocol.md: got %s %s for %s, want %q", number, phrase, code, http.StatusText(n))
		}
	}
	var inCode []string
	for code := range statuses {
		inCode = append(inCode, code)
	}
	compare(t, "problem", inCode, inText, "docs/protocol.md")
}

// statusOfCodes reads the constants of type code and the table of kinds: code
// to the name of its status without "Status".
func statusOfCodes(f goFile) map[string]string {
	texts := map[string]string{} // constant to code
	statuses := map[string]string{}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "code" && len(n.Values) == 1 {
				texts[n.Names[0].Name] = literal(n.Values[0])
			}
		case *ast.KeyValueExpr:
			if constant, ok := n.Key.(*ast.Ident); ok && texts[constant.Name] != "" {
				statuses[texts[constant.Name]] = statusIn(n.Value)
			}
		}
		return true
	})
	return statuses
}

func literal(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	return ""
}

func statusIn(n ast.Node) (name string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if status, ok := strings.CutPrefix(selector.Sel.Name, "Status"); ok {
				name = status
			}
		}
		return true
	})
	return name
}

// optionTables are the maps of caddymodule that hold the words of the
// Caddyfile.
var optionTables = regexp.MustCompile(`^(handler|app|store|redis|redisTLS|idempotency|tool|limit|guard|session|jwt|claimsACL|backendACL|ask)Options$`)

// optionsInCode returns the keys of all option tables.
func optionsInCode(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, f := range parseAll(t, func(name string) bool {
		return isGo(name) && !isTest(name) && path.Dir(name) == "caddymodule"
	}) {
		for _, decl := range f.Decls {
			table, ok := decl.(*ast.GenDecl)
			if !ok || table.Tok != token.VAR {
				continue
			}
			for _, spec := range table.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && optionTables.MatchString(value.Names[0].Name) {
					found = append(found, keysOf(value)...)
				}
			}
		}
	}
	return found
}

func keysOf(value *ast.ValueSpec) []string {
	var found []string
	for _, v := range value.Values {
		if table, ok := v.(*ast.CompositeLit); ok {
			for _, element := range table.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok {
					found = append(found, literal(pair.Key))
				}
			}
		}
	}
	return found
}

func TestReadmeListsEveryOption(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Directives\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var inText []string
	for _, match := range regexp.MustCompile("(?m)^\\| `+ *([a-z_]+)").FindAllStringSubmatch(section, -1) {
		if !slices.Contains(inText, match[1]) {
			inText = append(inText, match[1])
		}
	}
	compare(t, "option", optionsInCode(t), inText, "README.md")
}

var (
	namedFile = regexp.MustCompile("`([a-z][a-z/]*(?:/[a-z_]+\\.go|/[a-z]+))`")
	namedTest = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

func TestArchitectureNamesWhatExists(t *testing.T) { namesWhatExists(t, "ARCHITECTURE.md") }

func TestGuaranteesNameWhatExists(t *testing.T) { namesWhatExists(t, "docs/guarantees.md") }

func TestSecurityNamesWhatExists(t *testing.T) { namesWhatExists(t, "docs/security.md") }

// namesWhatExists checks the files and tests that a document names.
func namesWhatExists(t *testing.T, document string) {
	t.Helper()
	text := read(t, document)
	for _, match := range namedFile.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(match[1]))); err != nil {
			t.Errorf("%s: %v", document, err)
		}
	}
	tests := map[string]bool{}
	for _, f := range parseAll(t, isTest) {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				tests[fn.Name.Name] = true
			}
		}
	}
	for _, match := range namedTest.FindAllStringSubmatch(text, -1) {
		if !tests[match[1]] {
			t.Errorf("%s: got test %s, which does not exist", document, match[1])
		}
	}
}
