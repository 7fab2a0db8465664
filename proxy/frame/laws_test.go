package frame_test

import (
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// checkLaws holds an event stream against everything that is true of all
// event streams, and returns its frames.
func checkLaws(t *testing.T, body []byte) []cut {
	t.Helper()
	all := sameForEveryChunking(t, frame.SSE, body)
	checkAgainstBrowser(t, body, all)
	frames := all.frames()
	for _, f := range frames {
		checkStored(t, f)
	}
	checkSentOn(t, frames)
	return frames
}

// checkAgainstBrowser: frames are what a client of upstream would have read.
func checkAgainstBrowser(t *testing.T, body []byte, all outcome) {
	t.Helper()
	want, lastID := readAsBrowser(body)
	if got := asMessages(all.frames()); !slices.Equal(got, want) {
		t.Fatalf("of %q\ngot  %q\nwant %q as a browser reads", body, got, want)
	}
	if all.lastID != lastID {
		t.Fatalf("of %q got last id %q, want %q", body, all.lastID, lastID)
	}
}

// checkStored: a stored frame has nothing in it that is not sent on, and reads
// as it did when it arrived, with our id and without (promise 4).
func checkStored(t *testing.T, f cut) {
	t.Helper()
	if found := unsendable(f.clean); len(found) > 0 {
		t.Fatalf("clean frame %q of %q has %q", f.clean, f.raw, found)
	}
	want := cut{raw: f.clean, clean: f.clean, event: f.event, data: f.data, hasData: f.hasData}
	if got := parsed(frame.SSE, []byte(f.clean)); got != want {
		t.Fatalf("got %+v from stored frame, want %+v", got, want)
	}
	sent := frame.AppendID(nil, []byte(f.clean), cursorOf(0))
	want.raw, want.id, want.hasID = string(sent), string(cursorOf(0)), true
	if got := parsed(frame.SSE, sent); got != want {
		t.Fatalf("got %+v from rendered frame, want %+v", got, want)
	}
	again := cutBody(frame.SSE, 0, whole(sent)).frames()
	if len(again) != 1 || again[0].data != f.data || again[0].event != f.event {
		t.Fatalf("got %+v when rendered frame %q is cut, want one frame with its fields", again, sent)
	}
}

// checkSentOn: a client reads the frames sent on as a client of upstream read
// them, wherever it begins, and never an id that is not ours.
func checkSentOn(t *testing.T, frames []cut) {
	t.Helper()
	for from := range min(len(frames), 3) {
		rest := frames[from:]
		var withIDs, bare []message
		for i, f := range rest {
			if f.hasData {
				withIDs = append(withIDs, message{typeOf(f.event), f.data, string(cursorOf(i))})
				bare = append(bare, message{typeOf(f.event), f.data, ""})
			}
		}
		if got, _ := readAsBrowser(sendOn(rest, true)); !slices.Equal(got, withIDs) {
			t.Fatalf("from frame %d with ids a client reads %q, want %q", from, got, withIDs)
		}
		if got, lastID := readAsBrowser(sendOn(rest, false)); !slices.Equal(got, bare) || lastID != "" {
			t.Fatalf("from frame %d without ids a client reads %q and id %q, want %q and none", from, got, lastID, bare)
		}
	}
}

// TestLawsHoldForEveryShortStream tries every stream that can be put together
// from a few tokens: all orders of line ends, comments, fields and marks.
func TestLawsHoldForEveryShortStream(t *testing.T) {
	t.Parallel()
	tokens := []string{"\r", "\n", "\r\n", "data:x", "event", "id: 1", ":c", "\uFEFF"}
	const longest = 5
	var body []byte
	var try func(int)
	try = func(left int) {
		checkLawsQuickly(t, body)
		if left == 0 {
			return
		}
		for _, token := range tokens {
			n := len(body)
			body = append(body, token...)
			try(left - 1)
			body = body[:n]
		}
	}
	try(longest)
}

// checkLawsQuickly is checkLaws with two chunkings only.
func checkLawsQuickly(t *testing.T, body []byte) {
	t.Helper()
	all := cutBody(frame.SSE, 0, whole(body))
	if all.joined() != string(body) {
		t.Fatalf("got pieces %q, want %q", all.joined(), body)
	}
	for n := 1; n <= 2; n++ {
		chunks := pieces(body, n)
		sameOutcome(t, all, cutBody(frame.SSE, 0, chunks), chunks)
	}
	checkAgainstBrowser(t, body, all)
	for _, f := range all.frames() {
		checkStored(t, f)
	}
	checkSentOn(t, all.frames())
}
