package housetest

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// sleepMarks are words of a comment at the end of the line that explain a sleep:
// it belongs to a script, or runs in a bubble that the test cannot see.
var sleepMarks = []string{"scripted", "bubble"}

// TestTestsDoNotSleepAndHope finds real waiting. In a synctest bubble time is
// free, and a backend that is slow on purpose is a script.
func TestTestsDoNotSleepAndHope(t *testing.T) {
	packages := map[string][]goFile{}
	for _, f := range parseAll(t, isTest) {
		packages[path.Dir(f.name)] = append(packages[path.Dir(f.name)], f)
	}
	for _, pkg := range packages {
		inside := bubbled(pkg)
		for _, f := range pkg {
			marked := f.markedLines(sleepMarks)
			ast.Inspect(f.File, func(n ast.Node) bool {
				if n != nil && calls(n, "time", "Sleep") && !within(inside, n) && !marked[f.at(n).Line] {
					t.Errorf("%v: got a sleep in real time, want an event to wait for, a synctest bubble, or a comment on the line that explains it (%v)", f.at(n), sleepMarks)
				}
				return true
			})
		}
	}
}

// bubbled returns everything of a package that only ever runs in a bubble:
// what is handed to one, and the functions that nothing else refers to.
func bubbled(pkg []goFile) []ast.Node {
	var inside []ast.Node
	for _, f := range pkg {
		inside = append(inside, f.bubbles()...)
	}
	all, uses := functions(pkg), usesOfNames(pkg)
	for grown := true; grown; {
		grown = false
		for _, fn := range all {
			if !within(inside, fn) && onlyUsedIn(inside, fn, uses[fn.Name.Name]) {
				inside, grown = append(inside, fn), true
			}
		}
	}
	return inside
}

func functions(pkg []goFile) (all []*ast.FuncDecl) {
	for _, f := range pkg {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				all = append(all, fn)
			}
		}
	}
	return all
}

func usesOfNames(pkg []goFile) map[string][]ast.Node {
	uses := map[string][]ast.Node{}
	for _, f := range pkg {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				uses[name.Name] = append(uses[name.Name], name)
			}
			return true
		})
	}
	return uses
}

// onlyUsedIn reports whether fn is used, and nowhere but inside the given nodes
// and in itself.
func onlyUsedIn(inside []ast.Node, fn *ast.FuncDecl, uses []ast.Node) bool {
	used := false
	for _, use := range uses {
		if within([]ast.Node{fn}, use) {
			continue
		}
		if used = true; !within(inside, use) {
			return false
		}
	}
	return used
}

// bubbles returns the functions whose time is that of a bubble: those handed to
// synctest.Test or to a helper named after it, and those whose comment says
// that they run in one.
func (f goFile) bubbles() []ast.Node {
	var found []ast.Node
	ast.Inspect(f.File, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		if fn, ok := n.(*ast.FuncDecl); ok && strings.Contains(fn.Doc.Text(), "bubble") {
			found = append(found, fn)
		}
		if calls(n, "synctest", "Test") || callsBubble(n) {
			found = append(found, n)
		}
		return true
	})
	return found
}

// callsBubble reports whether n calls a function with bubble in its name.
func callsBubble(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	return strings.Contains(strings.ToLower(name), "bubble")
}

func within(nodes []ast.Node, n ast.Node) bool {
	for _, outer := range nodes {
		if outer.Pos() <= n.Pos() && n.End() <= outer.End() {
			return true
		}
	}
	return false
}

func (f goFile) markedLines(marks []string) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.Comments {
		for _, comment := range group.List {
			for _, mark := range marks {
				if strings.Contains(comment.Text, mark) {
					lines[set.Position(comment.Pos()).Line] = true
				}
			}
		}
	}
	return lines
}

// TestSkipsFailInCI allows a skip only where CI turns it into a failure: the
// function asks for CI, and fails there.
func TestSkipsFailInCI(t *testing.T) {
	isTestCode := func(name string) bool {
		return isTest(name) || isGo(name) && (strings.HasPrefix(name, "internal/") || strings.Contains(name, "storetest/"))
	}
	for _, f := range parseAll(t, isTestCode) {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if skip := firstSkip(fn); skip != nil && !mentions(fn, `"CI"`) {
				t.Errorf("%v: got a skip, want a failure, at least when CI is set", f.at(skip))
			}
		}
	}
}

func firstSkip(fn *ast.FuncDecl) (skip ast.Node) {
	ast.Inspect(fn, func(n ast.Node) bool {
		for _, receiver := range []string{"t", "b", "f", "tb"} {
			for _, method := range []string{"Skip", "Skipf", "SkipNow"} {
				if skip == nil && n != nil && calls(n, receiver, method) {
					skip = n
				}
			}
		}
		return skip == nil
	})
	return skip
}

func mentions(fn *ast.FuncDecl, literal string) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && lit.Value == literal {
			found = true
		}
		return !found
	})
	return found
}

// TestGoroutinesHaveAnOwner looks for go statements in what ships: a
// goroutine belongs to a WaitGroup that somebody waits for.
func TestGoroutinesHaveAnOwner(t *testing.T) {
	for _, f := range parseAll(t, isShipped) {
		waits := false
		ast.Inspect(f.File, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Wait" {
					waits = true
				}
			}
			return true
		})
		ast.Inspect(f.File, func(n ast.Node) bool {
			if stmt, ok := n.(*ast.GoStmt); ok && !waits {
				t.Errorf("%v: got a go statement in a file that waits for nothing, want WaitGroup.Go and a Close that waits", f.at(stmt))
			}
			return true
		})
	}
}
