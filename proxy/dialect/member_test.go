package dialect

import (
	"bytes"
	"testing"

	"github.com/tidwall/gjson"
)

// objects are JSON and what their member "a" is.
var membersOfA = []struct{ data, want string }{
	{`{"a":1}`, "1"},
	{` { "b" : [ {"a":2}, "}" ] , "a" : "x" } `, `"x"`},
	{`{"b":{"a":1},"a":{"b":"]"}}`, `{"b":"]"}`},
	{`{"b":"\"a\":1","a":"\\"}`, `"\\"`},
	{`{"b":"\\\"","a":true}`, "true"},
	{`{"b":null,"a":null}`, "null"},
	{`{"b":{"a":1}}`, ""},
	{`{"a":1,"a":2}`, "1"},
	{`[{"a":1}]`, ""},
	{`{"a"`, ""},
	{`{"a":`, ""},
	{`{"a":"x`, ""},
	{`{"a":{"b":1`, ""},
	{`{"b":"\`, ""},
	{`{`, ""},
	{``, ""},
	{`{,"a":1}`, ""},
	{`{"":1,"a":2}`, "2"},
}

func TestMembersAreFoundOnTheirOwnLevel(t *testing.T) {
	t.Parallel()
	for _, tt := range membersOfA {
		if got := string(member([]byte(tt.data), "a")); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.data, got, tt.want)
		}
	}
	if got := string(at([]byte(`{"x":{"a":0,"y":{"a":"deep"}},"a":1}`), "x.y.a")); got != `"deep"` {
		t.Errorf("got %s at x.y.a, want the deep one", got)
	}
}

// FuzzMember: of whole JSON the same member is found as by a parse.
func FuzzMember(f *testing.F) {
	for _, tt := range membersOfA {
		f.Add([]byte(tt.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := string(member(data, "a"))
		if !valid(data) || data[0] != '{' || bytes.Contains(data, []byte(`\u0061`)) {
			return
		}
		if want := gjson.GetBytes(data, "a").Raw; got != want {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
	})
}
