package dialect

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestScansSeeMembersThatSaySomething(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]signs{
		`{"usage":{"a":1}}`:                          1,
		`{"a":1, "usage" : {}}`:                      1,
		"{\n\"usage\"\t:\r\n {}}":                    1,
		`{"a":{"error":[]},"usage":"x"}`:             3,
		`{"a":[{"b":1},{"error":7}]}`:                2,
		`{"a":"\\","usage":true}`:                    1,
		`{"usage":null,"error":false}`:               0,
		`{"usage":"","error":""}`:                    0,
		`{"usage":null,"a":{"usage":{}}}`:            1,
		`{"a":"usage","b":"error"}`:                  0,
		`{"a":"\"usage\":{}, \"error\": {}"}`:        0,
		`{"a":"{\\\"usage\\\":{}}"}`:                 0,
		`{"native_usage":{}}`:                        0,
		`{"x\"usage":{}}`:                            0,
		`{"":1,"` + strings.Repeat("n", 99) + `":1}`: 0,
		`{"usage":`:                                  0,
		`{"usage"`:                                   0,
		`:`:                                          0,
		`":"`:                                        0,
		``:                                           0,
	} {
		if got := seen([]byte(data), "usage", "error"); got != want {
			t.Errorf("%s: got %b, want %b", data, got, want)
		}
	}
}

// FuzzSeen: every member at the top of whole JSON that says something is seen.
func FuzzSeen(f *testing.F) {
	f.Add([]byte(`{"usage":{"error":null},"error":"x"}`))
	f.Add([]byte(`{ "a" : ":" , "usage" : 1 }`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !valid(data) {
			seen(data, "usage", "error")
			return
		}
		var top map[string]any
		if json.Unmarshal(data, &top) != nil {
			return
		}
		got := seen(data, "usage", "error")
		for bit, name := range []string{"usage", "error"} {
			spelled := bytes.Contains(data, []byte(`"`+name+`"`)) // and not with escapes
			v := top[name]
			if v != nil && v != false && v != "" && spelled && got&(1<<bit) == 0 {
				t.Errorf("%s: %s was not seen", data, name)
			}
		}
	})
}

// FuzzLeading: where the short way finds a value, the long way finds the same.
func FuzzLeading(f *testing.F) {
	for _, s := range []string{
		`{"type":"a"}`, ` { "type" : "a", "type":"b" }`, `{"type":"a\"b"}`, `{"type":"`, `{"type":7}`, `{"x":1,"type":"a"}`, `[{"type":"a"}]`, `{`, ``, `{"type" "a"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := leading(data, "type")
		if !ok {
			return
		}
		if want := gjson.GetBytes(data, "type").Str; valid(data) && string(got) != want {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
		if bytes.ContainsAny(got, `"\`) {
			t.Errorf("%q: got %q, which is no plain value", data, got)
		}
	})
}
