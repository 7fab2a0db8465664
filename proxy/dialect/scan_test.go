package dialect

import (
	"bytes"
	"testing"

	"github.com/tidwall/gjson"
)

func TestScansFindMembersAndNothingElse(t *testing.T) {
	t.Parallel()
	m := member(`"usage"`)
	for _, tt := range []struct {
		data  string
		begun byte // what the value begins with, 0 for none
	}{
		{`{"usage":{"a":1}}`, '{'},
		{`{"a":1, "usage" : {}}`, '{'},
		{"{\"usage\"\t:\r\n {}}", '{'},
		{`{"a":{"usage":[]}}`, '['},
		{`{"usage":null}`, 'n'},
		{`{"a":"usage","usage":"x"}`, '"'},
		{`{"a":"usage"}`, 0},
		{`{"a":"\"usage\":{}"}`, 0},
		{`{"a":"\\","usage":{}}`, '{'},
		{`{"native_usage":{}}`, 0},
		{`{"usage":`, 0},
		{`{"usage"`, 0},
		{``, 0},
	} {
		for _, c := range []byte(`{["n`) {
			if got := m.begins([]byte(tt.data), c); got != (c == tt.begun) {
				t.Errorf("%s: got begins with %c %v, want %v", tt.data, c, got, c == tt.begun)
			}
		}
	}
}

func TestScansTellTextFromNone(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bool{
		`{"refusal":"no"}`: true, `{"refusal":""}`: false, `{"refusal":null}`: false, `{"refusal":["a"]}`: false,
		`{"refusal":null,"delta":{"refusal":"no"}}`: true, `{"refusal":"`: false,
	} {
		if got := memberRefusal.holdsText([]byte(data)); got != want {
			t.Errorf("%s: got %v, want %v", data, got, want)
		}
	}
}

// FuzzLeading: where the short way finds a value, the long way finds the same.
func FuzzLeading(f *testing.F) {
	for _, s := range []string{
		`{"type":"a"}`, ` { "type" : "a", "type":"b" }`, `{"type":"a\"b"}`, `{"type":"`, `{"type":7}`, `{"x":1,"type":"a"}`, `[{"type":"a"}]`, `{`, ``, `{"type" "a"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := memberType.leading(data)
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
