package frame_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// wpt are the parser tests of web-platform-tests/eventsource: the bodies that
// their servers send, and what their pages expect to be handed. (The four
// format-mime and format-utf-8 tests are also about the Content-Type; see
// mediatype_test.go.) Where the id or the retry time is expected to come back
// in a second request, that it was read is what is tested here.
var wpt = []struct {
	name string
	body string
	want []message
}{
	{
		"event-data",
		"data:msg\ndata: msg\n\n:\nfalsefield:msg\n\nfalsefield:msg\nData:data\n\ndata\n\ndata:end\n\n",
		[]message{{"message", "msg\nmsg", ""}, {"message", "", ""}, {"message", "end", ""}},
	},
	{
		"format-bom", "\uFEFFdata:1\n\n\uFEFFdata:2\n\ndata:3\n\n",
		[]message{{"message", "1", ""}, {"message", "3", ""}},
	},
	{
		"format-bom-2", "\uFEFF\uFEFFdata:1\n\ndata:2\n\ndata:3\n\n",
		[]message{{"message", "2", ""}, {"message", "3", ""}},
	},
	{
		"format-comments",
		"data:1\r:\x00\n:\r\ndata:2\n:" + strings.Repeat("x", 2048) +
			"\rdata:3\n:data:fail\r:" + strings.Repeat("x", 2048) + "\ndata:4\n\n",
		[]message{{"message", "1\n2\n3\n4", ""}},
	},
	{
		"format-data-before-final-empty-line", "retry:1000\ndata:test1\n\nid:test\ndata:test2\n",
		[]message{{"message", "test1", ""}},
	},
	{
		"format-field-data", "data:\n\ndata\ndata\n\ndata:test\n\n",
		[]message{{"message", "", ""}, {"message", "\n", ""}, {"message", "test", ""}},
	},
	{
		"format-field-event", "event:test\ndata:x\n\ndata:x\n\n",
		[]message{{"test", "x", ""}, {"message", "x", ""}},
	},
	{"format-field-event-empty", "event: \ndata:data\n\n", []message{{"message", "data", ""}}},
	{"format-field-id", "id: …\nretry: 200\ndata: hello\n\n", []message{{"message", "hello", "…"}}},
	{
		"format-field-id-2", "id: …\nretry: 200\ndata: hello\n\ndata: …\n\ndata: …\n\n",
		[]message{{"message", "hello", "…"}, {"message", "…", "…"}, {"message", "…", "…"}},
	},
	{
		"format-field-id-3/persists", "id: 1\ndata: 1\n\ndata: 2\n\n",
		[]message{{"message", "1", "1"}, {"message", "2", "1"}},
	},
	{
		"format-field-id-3/changes-and-persists", "id: 1\ndata: 1\n\nid: 2\ndata: 2\n\ndata: 3\n\n",
		[]message{{"message", "1", "1"}, {"message", "2", "2"}, {"message", "3", "2"}},
	},
	{
		"format-field-id-3/resets", "id: 1\ndata: 1\n\nid:\ndata: 2\n\ndata: 3\n\n",
		[]message{{"message", "1", "1"}, {"message", "2", ""}, {"message", "3", ""}},
	},
	{
		"format-field-id-3/resets-without-colon", "id: 1\ndata: 1\n\nid\ndata: 2\n\ndata: 3\n\n",
		[]message{{"message", "1", "1"}, {"message", "2", ""}, {"message", "3", ""}},
	},
	{"format-field-id-null/both", "id: \x00\x00\nretry: 200\ndata: hello\n\n", []message{{"message", "hello", ""}}},
	{"format-field-id-null/first", "id: \x00a\nretry: 200\ndata: hello\n\n", []message{{"message", "hello", ""}}},
	{"format-field-id-null/last", "id: a\x00\nretry: 200\ndata: hello\n\n", []message{{"message", "hello", ""}}},
	{
		"format-field-parsing",
		"data:\x00\ndata:  2\rData:1\ndata\x00:2\ndata:1\r\x00data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
		[]message{{"message", "\x00\n 2\n1\n3\n\n4", ""}},
	},
	{"format-field-retry", "retry:02000\ndata:x\n\n", []message{{"message", "x", ""}}},
	{"format-field-retry-bogus", "retry:2000\nretry:1000x\ndata:x\n\n", []message{{"message", "x", ""}}},
	{"format-field-retry-empty", "retry\ndata:test\n\n", []message{{"message", "test", ""}}},
	{
		"format-field-unknown",
		"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n",
		[]message{{"message", "test\n\ntest", ""}},
	},
	{"format-leading-space", "data:\ttest\rdata: \ndata:test\n\n", []message{{"message", "\ttest\n\ntest", ""}}},
	{"format-mime-trailing-semicolon", "data:data\n\n", []message{{"message", "data", ""}}},
	{"format-newlines", "data:test\r\ndata\ndata:test\r\n\r\n", []message{{"message", "test\n\ntest", ""}}},
	{"format-null-character", "data:\x00\n\n", []message{{"message", "\x00", ""}}},
	{"format-utf-8", "data:ok…\n\n", []message{{"message", "ok…", ""}}},
}

func TestWebPlatformTestsPass(t *testing.T) {
	for _, w := range wpt {
		t.Run(w.name, func(t *testing.T) {
			if got := asMessages(checkLaws(t, []byte(w.body))); !slices.Equal(got, w.want) {
				t.Errorf("got %q, want %q", got, w.want)
			}
		})
	}
}

// TestNewlinesTestPassesWithoutItsLastByte: the body of format-newlines used
// to end with the CR of its last line end.
func TestNewlinesTestPassesWithoutItsLastByte(t *testing.T) {
	got := asMessages(sameForEveryChunking(t, frame.SSE, []byte("data:test\r\ndata\ndata:test\r\n\r")).frames())
	if want := []message{{"message", "test\n\ntest", ""}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
