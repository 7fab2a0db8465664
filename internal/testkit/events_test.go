package testkit

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(t *testing.T, in io.Reader) ([]Event, *EventReader) {
	t.Helper()
	r := NewEventReader(in)
	events, err := r.All()
	if err != nil {
		t.Fatal(err)
	}
	return events, r
}

func TestEventReaderFollowsTheStandard(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []Pair
	}{
		"several data lines are joined":    {"data: YHOO\ndata: +2\ndata: 10\n\n", []Pair{{"message", "YHOO\n+2\n10"}}},
		"one space is taken off":           {"data:test\n\ndata:  test\n\n", []Pair{{"message", "test"}, {"message", " test"}}},
		"a field without a colon is empty": {"data\n\ndata\ndata\n\ndata:", []Pair{{"message", ""}, {"message", "\n"}}},
		"a block without data is nothing":  {"event: x\nid: 1\n\ndata: y\n\n", []Pair{{"message", "y"}}},
		"an unfinished block is dropped":   {"data: a\n\ndata: b\n", []Pair{{"message", "a"}}},
		"all line ends count":              {"data: a\r\rdata: b\r\n\r\ndata: c\n\r", []Pair{{"message", "a"}, {"message", "b"}, {"message", "c"}}},
		"CRLF is one line end":             {"data: a\r\ndata: b\r\n\r\n", []Pair{{"message", "a\nb"}}},
		"names are case sensitive":         {"Data: a\nDATA: b\ndata: c\n\n", []Pair{{"message", "c"}}},
		"one byte order mark is dropped":   {"\ufeffdata: a\n\n", []Pair{{"message", "a"}}},
		"a second one is a name":           {"\ufeff\ufeffdata: a\n\ndata: b\n\n", []Pair{{"message", "b"}}},
		"the last event field counts":      {"event: a\nevent: b\ndata: c\n\n", []Pair{{"b", "c"}}},
		"an empty event field is message":  {"event: a\nevent\ndata: c\n\n", []Pair{{"message", "c"}}},
		"invalid bytes are replaced":       {"data: a\xffb\xe2\x82c\xff\xffd\n\n", []Pair{{"message", "a\ufffdb\ufffdc\ufffd\ufffdd"}}},
		"a cut character is replaced once": {"data: a\xf0\x9f\x8e\n\n", []Pair{{"message", "a\ufffd"}}},
	} {
		t.Run(name, func(t *testing.T) {
			whole, _ := readAll(t, strings.NewReader(c.in))
			if !slices.Equal(Pairs(whole), c.want) {
				t.Errorf("got %q, want %q", Pairs(whole), c.want)
			}
			bytewise, r := readAll(t, iotest.OneByteReader(strings.NewReader(c.in)))
			if !slices.Equal(Pairs(bytewise), c.want) {
				t.Errorf("read byte by byte got %q, want %q", Pairs(bytewise), c.want)
			}
			if got := string(r.Raw()); got != c.in {
				t.Errorf("kept %q, want the input %q", got, c.in)
			}
		})
	}
}

func TestEventReaderKeepsIDsCommentsAndRetries(t *testing.T) {
	in := ": hello\nretry: 2000\nid: 1\ndata: a\n\nretry: x\n:x\ndata: b\n\nid: bad\x00\ndata: c\n\nid\ndata: d\n\n"
	events, r := readAll(t, strings.NewReader(in))
	var ids []string
	var own []bool
	for _, ev := range events {
		ids, own = append(ids, ev.ID), append(own, ev.Own)
	}
	if want := []string{"1", "1", "1", ""}; !slices.Equal(ids, want) {
		t.Errorf("got ids %q, want %q", ids, want)
	}
	if want := []bool{true, false, false, true}; !slices.Equal(own, want) {
		t.Errorf("got own ids %v, want %v", own, want)
	}
	if want := []string{"2000"}; !slices.Equal(r.Retries, want) {
		t.Errorf("got retries %q, want %q", r.Retries, want)
	}
	if len(r.Comments) != 2 || r.Comments[0].Text != " hello" || r.Comments[1].Text != "x" {
		t.Errorf("got comments %v, want \" hello\" and \"x\"", r.Comments)
	}
}

func TestEventReaderGivesALineAsSoonAsItsCarriageReturn(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(out, "data: a\r\r") // nothing more comes
	}()
	ev, err := NewEventReader(in).Next()
	if err != nil || ev.Data != "a" {
		t.Errorf("got %v and %v, want an event a", ev, err)
	}
	<-written
}

func TestEventReaderTellsABrokenBodyFromAnEnd(t *testing.T) {
	broken := errors.New("connection reset")
	r := NewEventReader(io.MultiReader(strings.NewReader("data: a\n\n"), iotest.ErrReader(broken)))
	events, err := r.All()
	if !errors.Is(err, broken) || len(events) != 1 {
		t.Errorf("got %d events and %v, want 1 and the error of the body", len(events), err)
	}
}
