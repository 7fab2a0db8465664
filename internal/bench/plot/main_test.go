package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryBarIsNamedInThePlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plot.svg")
	in := `[{"Label":"first measure","Ratio":1.1,"Goal":1.25},{"Label":"second measure","Ratio":0.9,"Goal":0.8}]`
	if err := draw(strings.NewReader(in), path); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "first measure", "second measure"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("got no %q in the plot", want)
		}
	}
}

func TestNothingToDrawIsAnError(t *testing.T) {
	if err := draw(strings.NewReader("[]"), filepath.Join(t.TempDir(), "plot.svg")); !errors.Is(err, errNothing) {
		t.Errorf("got error %v, want %v", err, errNothing)
	}
	if err := draw(strings.NewReader("{"), filepath.Join(t.TempDir(), "plot.svg")); err == nil {
		t.Error("got no error for input that is not JSON")
	}
}
