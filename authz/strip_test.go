package authz_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Promise 5.
func TestStripRemovesOnlyTheSessionCookie(t *testing.T) {
	s := session(t, options())
	for _, tt := range []struct {
		name     string
		in, want []string
	}{
		{"no cookies", nil, nil},
		{"alone", []string{"__Host-agent-runs=x"}, nil},
		{"alone in clear text", []string{"agent-runs=x"}, nil},
		{"alone with a semicolon", []string{"agent-runs=x;"}, nil},
		{"first", []string{"__Host-agent-runs=x; a=1"}, []string{"a=1"}},
		{"last", []string{"a=1; __Host-agent-runs=x"}, []string{"a=1"}},
		{"between", []string{"a=1; __Host-agent-runs=x; b=2"}, []string{"a=1; b=2"}},
		{"twice and both names", []string{"agent-runs=x; a=1; __Host-agent-runs=y; agent-runs=z"}, []string{"a=1"}},
		{"without value", []string{"a=1; agent-runs; agent-runs="}, []string{"a=1"}},
		{"spaced", []string{"a=1;  agent-runs = x ;b=2"}, []string{"a=1;b=2"}},
		{"several fields", []string{"a=1", "agent-runs=x", "b=2; agent-runs=y"}, []string{"a=1", "b=2"}},
		{"names alike", []string{"Agent-Runs=1; agent-runs2=2; x-agent-runs=3; a=agent-runs=4"}, []string{"Agent-Runs=1; agent-runs2=2; x-agent-runs=3; a=agent-runs=4"}},
		{"odd bytes", []string{`a={"x": "é"},b ; agent-runs=x;; =v; "q"; a`}, []string{`a={"x": "é"},b ;; =v; "q"; a`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{"X-Other": {"agent-runs=x"}}
			if tt.in != nil {
				h["Cookie"] = tt.in
			}
			s.Strip(h)
			if got := h["Cookie"]; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if _, ok := h["Cookie"]; ok != (tt.want != nil) || len(h["X-Other"]) != 1 {
				t.Errorf("got header %q, want a cookie field: %t, and the rest untouched", h, tt.want != nil)
			}
		})
	}
}

// A law: wherever our cookies stand, what is left is the others, in their
// order, byte for byte.
func TestStripLeavesAllOthersAlone(t *testing.T) {
	s := session(t, options())
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var others, all []string
		for i := range random.IntN(6) {
			others = append(others, randomPair(random, i))
			all = append(all, others[i])
		}
		for range random.IntN(4) {
			ours := []string{"agent-runs=v", "__Host-agent-runs=v", "agent-runs="}[random.IntN(3)]
			all = slices.Insert(all, random.IntN(len(all)+1), ours)
		}
		h := http.Header{"Cookie": {strings.Join(all, "; ")}}
		s.Strip(h)
		if got, want := h.Get("Cookie"), strings.Join(others, "; "); got != want {
			t.Fatalf("got %q of %q, want %q", got, all, want)
		}
	}
}

// randomPair returns a cookie pair of bytes that a browser may send.
func randomPair(random *rand.Rand, i int) string {
	value := make([]byte, random.IntN(8))
	for j := range value {
		value[j] = "aZ09=\"\\,{}[]:/?&%\xc3\xa9"[random.IntN(19)]
	}
	return fmt.Sprintf("c%d=%s", i, value)
}

func TestStripDoesNotWriteToASharedHeader(t *testing.T) {
	s := session(t, options())
	original := http.Header{"Cookie": {"agent-runs=x; a=1", "b=2"}}
	shallow := http.Header{"Cookie": original["Cookie"]}
	s.Strip(shallow)
	if want := []string{"agent-runs=x; a=1", "b=2"}; !slices.Equal(original["Cookie"], want) {
		t.Errorf("got %q in the original, want %q", original["Cookie"], want)
	}
}

func TestStrippedRequestIsNobodys(t *testing.T) {
	s := session(t, options())
	_, cookie := newcomer(t, s, request(), "")
	r := request("Cookie: a=1; " + cookie.Name + "=" + cookie.Value)
	s.Strip(r.Header)
	if got := identify(t, s, r); got.Known || strings.Contains(r.Header.Get("Cookie"), cookie.Value) {
		t.Errorf("got %+v and %q, want nobody", got, r.Header.Get("Cookie"))
	}
}
