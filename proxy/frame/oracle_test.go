package frame_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// message is what an EventSource hands to a page.
type message struct{ event, data, id string }

var anyLineEnd = regexp.MustCompile(`\r\n|\n|\r`)

// readAsBrowser is a second reader of event streams, written down from the
// steps of the HTML Standard, section 9.2.6: slow, without chunks and without
// a thought for bytes, so that it can err only in other ways than the cutter.
func readAsBrowser(body []byte) (messages []message, lastID string) {
	text := strings.TrimPrefix(string(body), "\uFEFF")
	lines := anyLineEnd.Split(text, -1)
	var event, id string
	var data strings.Builder
	hasData := false
	for _, line := range lines[:len(lines)-1] { // after the last line end comes no line
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			lastID = id
			if hasData {
				messages = append(messages, message{typeOf(event), strings.TrimSuffix(data.String(), "\n"), lastID})
			}
			event, hasData = "", false
			data.Reset()
		case name == "event":
			event = value
		case name == "data":
			hasData = true
			data.WriteString(value + "\n")
		case name == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return messages, lastID
}

func typeOf(event string) string {
	if event == "" {
		return "message"
	}
	return event
}

// asMessages turns frames into what a page would see of them.
func asMessages(frames []cut) []message {
	var messages []message
	for _, f := range frames {
		if f.hasData {
			messages = append(messages, message{typeOf(f.event), f.data, f.lastID})
		}
	}
	return messages
}

// unsendable returns the lines of a block that must not be sent on.
func unsendable(block string) []string {
	var found []string
	for _, line := range anyLineEnd.Split(block, -1) {
		name, _, _ := strings.Cut(line, ":")
		if name == "id" || name == "retry" || strings.HasPrefix(line, ":") || strings.HasPrefix(line, "\uFEFF") {
			found = append(found, line)
		}
	}
	return found
}

func TestTheSlowReaderItselfReadsTheExampleOfTheStandard(t *testing.T) {
	body := ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\ndata: lost\nid: 9\n"
	messages, lastID := readAsBrowser([]byte(body))
	want := []message{{"message", "first event", "1"}, {"message", "second event", ""}, {"message", " third event", ""}}
	if len(messages) != len(want) || lastID != "" {
		t.Fatalf("got %q, last id %q; want %q and none", messages, lastID, want)
	}
	for i := range want {
		if messages[i] != want[i] {
			t.Errorf("got message %q, want %q", messages[i], want[i])
		}
	}
}

// cursorOf is the id under which the laws send frame i on.
func cursorOf(i int) []byte { return append([]byte("run_7x."), byte('1'+i%9)) }

// sendOn renders frames as a reader of the run gets them.
func sendOn(frames []cut, ids bool) []byte {
	var b []byte
	for i, f := range frames {
		if ids {
			b = frame.AppendID(b, []byte(f.clean), cursorOf(i))
		} else {
			b = append(b, f.clean...)
		}
	}
	return b
}

// parsed returns a stored frame as Parse reads it.
func parsed(kind frame.Kind, stored []byte) cut {
	var f frame.Frame
	before := bytes.Clone(stored)
	frame.Parse(kind, stored, &f)
	if !bytes.Equal(before, stored) {
		panic("Parse changed the stored frame")
	}
	return cut{
		raw: string(f.Raw), clean: string(f.Clean),
		event: string(f.Event), data: string(f.Data), id: string(f.ID),
		hasID: f.HasID, hasData: f.HasData,
	}
}
