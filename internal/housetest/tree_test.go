package housetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the top of the repository, seen from this package.
const root = "../.."

// skipped are folders that hold nothing of ours.
var skipped = []string{".git", "node_modules", "bin", "coverage"}

// files returns the slash-separated paths of all files that keep accepts,
// relative to the top of the repository.
func files(t *testing.T, keep func(name string) bool) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case entry.Type().IsRegular() && keep(name):
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("found no files to look at")
	}
	return found
}

func isGo(name string) bool   { return path.Ext(name) == ".go" }
func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
func isShipped(name string) bool {
	return isGo(name) && !isTest(name) && !strings.HasPrefix(name, "internal/")
}
func isMarkdown(name string) bool { return path.Ext(name) == ".md" }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// goFile is a parsed file of the repository.
type goFile struct {
	name string
	*ast.File
}

// set is shared by all files, so that positions of different files differ.
var set = token.NewFileSet()

func parse(t *testing.T, name string) goFile {
	t.Helper()
	f, err := parser.ParseFile(set, name, read(t, name), parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return goFile{name: name, File: f}
}

func parseAll(t *testing.T, keep func(string) bool) []goFile {
	t.Helper()
	var all []goFile
	for _, name := range files(t, keep) {
		all = append(all, parse(t, name))
	}
	return all
}

func (f goFile) at(n ast.Node) token.Position { return set.Position(n.Pos()) }

// length is how many lines a node takes.
func (f goFile) length(n ast.Node) int {
	return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
}

// calls reports whether n is a call of pkg.fn.
func calls(n ast.Node, pkg, fn string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != fn {
		return false
	}
	x, ok := selector.X.(*ast.Ident)
	return ok && x.Name == pkg
}
