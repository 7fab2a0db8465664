package housetest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// The budget of the house. Averages keep the whole readable; the hard stops
// keep each piece so.
const (
	maxFile         = 400
	maxFunction     = 80
	medianFile      = 150
	averageFunction = 18
)

func TestFilesStayShort(t *testing.T) {
	var shipped []int
	for _, name := range files(t, isGo) {
		n := strings.Count(read(t, name), "\n")
		if n > maxFile {
			t.Errorf("%s: got %d lines, want at most %d: split it by behaviour", name, n, maxFile)
		}
		if isShipped(name) {
			shipped = append(shipped, n)
		}
	}
	slices.Sort(shipped)
	if got := shipped[len(shipped)/2]; got >= medianFile {
		t.Errorf("got a median of %d lines per shipped file, want less than %d", got, medianFile)
	}
}

func TestFunctionsStayShort(t *testing.T) {
	lines, count := 0, 0
	for _, f := range parseAll(t, isGo) {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			n := f.length(fn)
			if isTest(f.name) {
				n -= f.tables(fn)
			}
			if n > maxFunction {
				t.Errorf("%v: got %d lines in %s, want at most %d", f.at(fn), n, fn.Name.Name, maxFunction)
			}
			if isShipped(f.name) {
				lines, count = lines+n, count+1
			}
		}
	}
	if got := float64(lines) / float64(count); got >= averageFunction {
		t.Errorf("got %.1f lines per shipped function, want less than %d", got, averageFunction)
	}
}

// tables is how many lines of a function are composite literals: the rows of a
// table test are data.
func (f goFile) tables(fn *ast.FuncDecl) (lines int) {
	ast.Inspect(fn, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if ok {
			lines += f.length(table) - 1
		}
		return !ok
	})
	return lines
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range parseAll(t, isGo) {
		// An external test package is documented by the one that it tests.
		if isTest(f.name) {
			continue
		}
		dir := f.name[:max(0, strings.LastIndexByte(f.name, '/'))]
		documented[dir] = documented[dir] || len(f.Doc.Text()) > 40
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: got no package comment, want one that states what the package promises", dir)
		}
	}
}
