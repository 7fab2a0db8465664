package demo

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTokensAreWordsWithTheirSpace(t *testing.T) {
	for text, want := range map[string][]string{
		"":                   nil,
		"a":                  {"a"},
		"Hello, world.":      {"Hello", ",", " world", "."},
		"one\n\ntwo":         {"one", "\n\n", "two"},
		"end.\n\n1. Go":      {"end", ".", "\n\n", "1", ".", " Go"},
		"connection":         {"connect", "ion"},
		`{"a": "b"}`:         {`{"`, "a", `":`, ` "`, "b", `"}`},
		"don't":              {"don't"},
		"größer":             {"größer"},
		"\n x":               {"\n", " x"},
		"incomprehensibles ": {"incompr", "ehensib", "les", " "},
	} {
		if got := tokens(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzTokensJoinToTheirText(f *testing.F) {
	for _, s := range scripts() {
		for _, step := range s.steps {
			f.Add(step.text)
		}
	}
	f.Add("\xff broken \xf0\x9f bytes")
	f.Fuzz(func(t *testing.T, text string) {
		all := tokens(text)
		if got := strings.Join(all, ""); got != text {
			t.Errorf("got %q joined, want %q", got, text)
		}
		for _, token := range all {
			if n := utf8.RuneCountInString(token); n == 0 || n > longestToken {
				t.Errorf("got token %q of %d characters, want 1 to %d", token, n, longestToken)
			}
		}
	})
}
