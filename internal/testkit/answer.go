package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Answer is what came back: a head, and a body that is read either as events
// or whole.
type Answer struct {
	Status int
	Header http.Header
	// Events reads the body as an event stream.
	Events *EventReader
	// At is when the head arrived.
	At time.Time

	t     testing.TB
	body  io.ReadCloser
	conn  net.Conn
	leave context.CancelFunc
}

// Run is the id of the run that answers.
func (a *Answer) Run() string { return a.Header.Get("X-Run-Id") }

// Conversation is the conversation of the run that answers.
func (a *Answer) Conversation() string { return a.Header.Get("X-Conversation-Id") }

// Want fails the test when the status is another, or when a successful start
// names no run.
func (a *Answer) Want(status int) *Answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("got status %d, want %d: %.400s", a.Status, status, a.Body())
	}
	return a
}

// Next returns the next event, which must come.
func (a *Answer) Next() Event {
	a.t.Helper()
	ev, err := a.Events.Next()
	if err != nil {
		a.t.Fatalf("reading event: %v after %.400q", err, a.Events.Raw())
	}
	return ev
}

// Take returns the next n events.
func (a *Answer) Take(n int) []Event {
	a.t.Helper()
	all := make([]Event, 0, n)
	for range n {
		all = append(all, a.Next())
	}
	return all
}

// Rest reads the events up to the proper end of the body.
func (a *Answer) Rest() []Event {
	a.t.Helper()
	all, err := a.Events.All()
	if err != nil {
		a.t.Fatalf("reading to the end: %v after %d events", err, len(all))
	}
	return all
}

// RestBroken reads the events up to the end of a body that must not end
// properly: its transport is aborted.
func (a *Answer) RestBroken() []Event {
	a.t.Helper()
	all, err := a.Events.All()
	if err == nil {
		a.t.Fatalf("body ended cleanly after %d events, want an aborted transport", len(all))
	}
	return all
}

// Body reads the whole body; a body that breaks fails the test.
func (a *Answer) Body() []byte {
	a.t.Helper()
	raw, err := a.Bytes()
	if err != nil {
		a.t.Fatalf("reading body: %v after %d bytes", err, len(raw))
	}
	return raw
}

// Bytes reads the whole body and returns it together with how it ended.
func (a *Answer) Bytes() ([]byte, error) { return io.ReadAll(a.body) }

// Read reads raw body bytes.
func (a *Answer) Read(p []byte) (int, error) { return a.body.Read(p) }

// Drop resets the connection, as a client does that vanishes.
func (a *Answer) Drop() {
	ResetConn(a.conn)
	a.leave()
}

// Close closes the connection in order, as a browser tab does.
func (a *Answer) Close() {
	a.leave()
	_ = a.body.Close() // the body is not wanted any more
}

// Problem reads the body as a problem document with a code.
func (a *Answer) Problem(status int, code string) Problem {
	a.t.Helper()
	raw := a.Want(status).Body()
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Fatalf("got content type %q, want application/problem+json: %.300s", got, raw)
	}
	p := Decode[Problem](a.t, raw)
	if p.Code != code || p.Status != status || p.Error.Message == "" {
		a.t.Fatalf("got problem %.400s, want code %s and status %d", raw, code, status)
	}
	return p
}

// control tells the gateway's own events.
func control(ev Event) bool {
	return strings.HasPrefix(ev.Name, "run.") || ev.Name == "stream_expired"
}

// Content returns the events that are not the gateway's own.
func Content(events []Event) []Event {
	return slices.DeleteFunc(slices.Clone(events), control)
}

// Pair is what of an event is compared: its name and data.
type Pair = [2]string

// Pairs returns names and data.
func Pairs(events []Event) []Pair {
	pairs := make([]Pair, 0, len(events))
	for _, ev := range events {
		pairs = append(pairs, Pair{ev.Name, ev.Data})
	}
	return pairs
}

// Cursor writes a position of a run.
func Cursor(run string, seq int) string { return run + "." + strconv.Itoa(seq) }

// SeqOf reads the number out of an event's id, which must be a cursor of run.
func SeqOf(run string, ev Event) (int, error) {
	text, ok := strings.CutPrefix(ev.ID, run+".")
	if !ok {
		return 0, errors.New("id " + strconv.Quote(ev.ID) + " is no cursor of " + run)
	}
	return strconv.Atoi(text)
}

// CheckIDs fails the test unless the events that carry an id are numbered
// first, first+1, ... and every event with content carries one. It returns the
// number after the last.
func CheckIDs(t testing.TB, run string, first int, events []Event) int {
	t.Helper()
	for i, ev := range events {
		if !ev.Own && control(ev) {
			continue // run.state is not numbered
		}
		seq, err := SeqOf(run, ev)
		if err != nil || !ev.Own || seq != first {
			t.Fatalf("event %d (%s %.80q) has id %q, want %s", i, ev.Name, ev.Data, ev.ID, Cursor(run, first))
		}
		first++
	}
	return first
}

// EndsAs checks that the last event is run.end with a state, and returns it.
func EndsAs(t testing.TB, events []Event, state string) Terminal {
	t.Helper()
	if len(events) == 0 {
		t.Fatal("got no events, want a run.end at least")
	}
	last := events[len(events)-1]
	if last.Name != "run.end" {
		t.Fatalf("last event is %s %.200q, want run.end", last.Name, last.Data)
	}
	end := Decode[Terminal](t, []byte(last.Data))
	if end.State != state {
		t.Fatalf("run ended as %s, want %s: %s", end.State, state, last.Data)
	}
	for _, ev := range events[:len(events)-1] {
		if ev.Name == "run.end" {
			t.Fatal("got more than one run.end")
		}
	}
	return end
}
