package proxy

import (
	"encoding/json"
	"net/url"
	"reflect"
	"testing"
)

// FuzzGuard holds the guard to a law: what it lets through, another decoder
// reads as the same document, with the fixed member and without a denied one.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":{"b":1},"x":[]}`, `{"x":1,"x":2}`, `{"set":{"v":0}}`, ` { "set" : {} } `, `{"deny":1}`, `{"a":"\ud83d\ude00"}`} {
		f.Add([]byte(seed))
	}
	g := Guard{Deny: []string{"deny"}, Set: []Fixed{{Path: "set.v", Value: `"fixed"`}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := g.check(&url.URL{Path: "/"}, body)
		if err != nil || len(body) == 0 {
			return
		}
		var sent, got map[string]any
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatalf("%q passed, which is no object: %v", body, err)
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		if _, there := got["deny"]; there {
			t.Fatalf("%q passed with a denied member", body)
		}
		inner, _ := sent["set"].(map[string]any)
		if inner == nil {
			inner = make(map[string]any)
		}
		inner["v"] = "fixed"
		sent["set"] = inner
		if !reflect.DeepEqual(got, sent) {
			t.Fatalf("%q became %q", body, out)
		}
	})
}
