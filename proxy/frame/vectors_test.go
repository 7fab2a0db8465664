package frame_test

import (
	"slices"
	"strings"
	"testing"
)

// vectors are the streams that readers of event streams get wrong most often,
// with what the steps of the HTML Standard make of them.
var vectors = []struct {
	name   string
	body   string
	want   []message
	lastID string
}{
	{"mark", "\uFEFFdata:1\n\ndata:2\n\n", []message{{"message", "1", ""}, {"message", "2", ""}}, ""},
	{"two marks", "\uFEFF\uFEFFdata:1\n\ndata:2\n\ndata:3\n\n", []message{{"message", "2", ""}, {"message", "3", ""}}, ""},
	{
		"comments and mixed line ends",
		"data:1\r:\x00\n:\r\ndata:2\n:xxxx\rdata:3\n:data:fail\r:yyy\ndata:4\n\n",
		[]message{{"message", "1\n2\n3\n4", ""}},
		"",
	},
	{
		"empty data", "data:\n\ndata\ndata\n\ndata:test\n\n",
		[]message{{"message", "", ""}, {"message", "\n", ""}, {"message", "test", ""}},
		"",
	},
	{"unfinished rest", "data:test1\n\nid:test\ndata:test2", []message{{"message", "test1", ""}}, ""},
	{"event emptied", "event:x\nevent:\ndata:d\n\n", []message{{"message", "d", ""}}, ""},
	{"event does not leak", "event:test\n\ndata:x\n\n", []message{{"message", "x", ""}}, ""},
	{
		"id persists and is emptied", "id: 1\ndata:a\n\ndata:b\n\nid\ndata:c\n\nid:2\n\n",
		[]message{{"message", "a", "1"}, {"message", "b", "1"}, {"message", "c", ""}},
		"2",
	},
	{"id with NUL", "id:a\x00b\ndata:x\n\n", []message{{"message", "x", ""}}, ""},
	{"id alone", "id: 7\n\n", nil, "7"},
	{"id in unfinished rest", "id: 8\ndata: x\n", nil, ""},
	{
		"one space is taken off, a tab is not", "data:  two\n\ndata:\tt\n\n",
		[]message{{"message", " two", ""}, {"message", "\tt", ""}},
		"",
	},
	{"field names are literal", "data : x\nDATA:x\n data:x\ndata:y\n\n", []message{{"message", "y", ""}}, ""},
	{
		"retry", "retry:3000\nretry:1000x\nretry:-1\nretry:+5\nretry: 2000 \nretry:\ndata:x\n\n",
		[]message{{"message", "x", ""}},
		"",
	},
	{
		"CRLF, CR and LF", "data:a\r\n\r\ndata:b\r\rdata:c\n\n",
		[]message{{"message", "a", ""}, {"message", "b", ""}, {"message", "c", ""}},
		"",
	},
	{
		"line ends mixed in a block", "data:a\r\ndata:b\n\rdata:c\r\n\r\n",
		[]message{{"message", "a\nb", ""}, {"message", "c", ""}},
		"",
	},
	{
		"no line ends", "data:a\u2028b\u0085c\vd\fe\n\n",
		[]message{{"message", "a\u2028b\u0085c\vd\fe", ""}},
		"",
	},
	{"two empty lines of data", "data:\r\ndata:\r\n\r\n", []message{{"message", "\n", ""}}, ""},
	{"comment alone", ": hi\n\n", nil, ""},
}

func TestVectorsAreReadAsTheStandardSays(t *testing.T) {
	for _, v := range vectors {
		t.Run(strings.ReplaceAll(v.name, " ", "-"), func(t *testing.T) {
			frames := checkLaws(t, []byte(v.body))
			if got := asMessages(frames); !slices.Equal(got, v.want) {
				t.Errorf("got %q, want %q", got, v.want)
			}
			if got := sameForEveryChunking(t, 0, []byte(v.body)).lastID; got != v.lastID {
				t.Errorf("got last id %q, want %q", got, v.lastID)
			}
		})
	}
}
