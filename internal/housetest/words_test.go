package housetest

import (
	"bufio"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// forbidden are words that no file may contain. They are put together here so
// that this file does not contain them either.
var forbidden = []struct {
	word string
	why  string
}{
	{"/" + "work" + "/", "a path of one machine"},
	{"/" + "root" + "/", "a path of one machine"},
	{"/" + "tmp" + "/", "a path of one kind of machine: use a temporary directory of the test or of the system"},
	{"/" + "home" + "/", "a path of one machine"},
	{"proxy." + "golang.org", "a registry host: ordinary clients know theirs"},
	{"sum." + "golang.org", "a registry host: ordinary clients know theirs"},
	{"registry." + "npmjs.org", "a registry host: ordinary clients know theirs"},
	{"deb." + "debian.org", "a registry host: ordinary clients know theirs"},
	{"TO" + "DO", "an open end: finish it or leave it out"},
	{"FIX" + "ME", "an open end: finish it or leave it out"},
}

// binaries are recorded bytes, which may say what they like.
var binaries = []string{".bin", ".gz", ".png", ".ico", ".sum"}

func TestTreeNamesNoMachineAndLeavesNothingOpen(t *testing.T) {
	isText := func(name string) bool {
		return !slices.Contains(binaries, path.Ext(name)) && !strings.Contains(name, "testdata/fuzz/")
	}
	for _, name := range files(t, isText) {
		lines := bufio.NewScanner(strings.NewReader(read(t, name)))
		lines.Buffer(nil, 16<<20)
		for n := 1; lines.Scan(); n++ {
			for _, f := range forbidden {
				if strings.Contains(lines.Text(), f.word) {
					t.Errorf("%s:%d: got %q, which is %s", name, n, f.word, f.why)
				}
			}
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// maxNolint bounds how often a linter is switched off in what ships.
const maxNolint = 24

var nolint = regexp.MustCompile(`//nolint\b`)

func TestLintersAreRarelySwitchedOff(t *testing.T) {
	var found []string
	for _, name := range files(t, isShipped) {
		for range nolint.FindAllString(read(t, name), -1) {
			found = append(found, name)
		}
	}
	if got := len(found); got > maxNolint {
		t.Errorf("got %d nolint comments in %v, want at most %d: make lint tells those that nothing needs", got, slices.Compact(found), maxNolint)
	}
}
