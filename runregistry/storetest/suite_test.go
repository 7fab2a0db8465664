package storetest

import (
	"fmt"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// Every promise of package runregistry must be tested under its number.
func TestEveryPromiseHasTests(t *testing.T) {
	promised := numbered(t, "../doc.go")
	if len(promised) < 10 {
		t.Fatalf("got %d promises, want at least 10", len(promised))
	}
	for _, number := range promised {
		tests := 0
		for _, p := range append(steady(), timed()...) {
			if strings.HasPrefix(p.name, number+" ") {
				tests += len(p.tests)
			}
		}
		if tests == 0 {
			t.Errorf("promise %s: got no test", number)
		}
	}
}

// numbered returns the numbers of the list in a package comment.
func numbered(t *testing.T, file string) (numbers []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	var p comment.Parser
	for _, block := range p.Parse(f.Doc.Text()).Content {
		if list, ok := block.(*comment.List); ok {
			for _, item := range list.Items {
				numbers = append(numbers, item.Number)
			}
		}
	}
	return numbers
}

// Two tests of one name could not be told apart in a report.
func TestTestsHaveNamesOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range append(steady(), timed()...) {
		for _, tt := range p.tests {
			name := fmt.Sprint(p.name, "/", tt.name)
			if seen[name] || tt.run == nil {
				t.Errorf("%s: got it twice or empty", name)
			}
			seen[name] = true
		}
	}
	if len(seen) < 150 {
		t.Errorf("got %d tests, want all of them", len(seen))
	}
}

func TestSchedulesAreAllOfThem(t *testing.T) {
	seen := make(map[string]bool)
	eachSchedule(3, 4, func(at []int) { seen[fmt.Sprint(at)] = true })
	if len(seen) != 35 { // choose 3 of 5 with repetition
		t.Errorf("got %d schedules, want 35", len(seen))
	}
}
