package proxy

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
)

// GuardCase is a body of testdata/guard.txt, and the rule that refuses it, or
// pass.
type GuardCase struct {
	Dialect, Path, Want string
	Body                []byte
}

// GuardCases reads them, for the tests from outside too.
func GuardCases(t *testing.T) (cases []GuardCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/guard.txt")
	if err != nil {
		t.Fatal(err)
	}
	var c GuardCase
	for line := range strings.Lines(string(text)) {
		first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch first {
		case "", "#":
		case "==":
			c.Dialect, c.Path, _ = strings.Cut(rest, " ")
		default:
			c.Want, c.Body = first, []byte(rest)
			cases = append(cases, c)
		}
	}
	return cases
}

// judge returns the rule that a body breaks, or "".
func (c GuardCase) judge(g *Guard) string {
	u, err := url.Parse(c.Path)
	if err == nil {
		_, err = g.check(u, c.Body)
	}
	if p, refused := errors.AsType[*Problem](err); refused {
		return fmt.Sprint(p.Members["rule"])
	}
	return ""
}

// changed reports whether a body that has a name is judged otherwise than
// before.
func changed(cases []GuardCase, g *Guard, before []string, name string) bool {
	for i, c := range cases {
		if strings.Contains(plain(string(c.Body)), name) && c.judge(g) != before[i] {
			return true
		}
	}
	return false
}

// lastName is the last name of a path that is no element of an array.
func lastName(path string) string {
	path = strings.TrimRight(path, ".*01")
	return path[strings.LastIndexByte(path, '.')+1:]
}

// TestEveryPlaceIsNeeded: without any one place of the presets, some body of
// testdata/guard.txt is judged otherwise.
func TestEveryPlaceIsNeeded(t *testing.T) {
	cases := GuardCases(t)
	g := &Guard{Roles: []string{"user", "assistant"}, Models: []string{"small"}, NoTools: true, NoURLs: true}
	whole := make([]string, len(cases))
	for i, c := range cases {
		whole[i] = c.judge(g)
	}
	var without func(p *place, path string)
	without = func(p *place, path string) {
		is := p.is
		for bit := privilege(1); bit <= is; bit <<= 1 {
			p.is = is &^ bit
			if p.is != is && !changed(cases, g, whole, lastName(path)) {
				t.Errorf("nothing needs privilege %b of %s", bit, path)
			}
		}
		p.is = is
		for name, next := range p.next {
			without(next, path+"."+name)
		}
	}
	without(guarded, "")
}
