package testkit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Script is what an upstream does with one request, from top to bottom.
type Script []Op

// Op is one step of a script. Which fields count depends on Do.
type Op struct {
	Do   Verb
	Code int
	// Name and Value are a response header.
	Name, Value string
	// Bytes are sent as one piece and flushed; in a repeat "{{i}}" stands for
	// the number of the turn, from 1.
	Bytes []byte
	// Times is the number of turns of a repeat, Wait the time after each; for
	// other steps Wait is how long they last.
	Times int
	Wait  time.Duration
	// Then says what happens to the stream after a cancel call was answered:
	// "stop" ends it cleanly, anything else lets it go on.
	Then string
	// Gate is what a gate waits for: one value, or its end.
	Gate <-chan struct{}
}

// Verb names a step.
type Verb string

// The steps.
const (
	DoStatus       Verb = "status"
	DoHeader       Verb = "header"
	DoFlushHeaders Verb = "flush_headers"
	DoSend         Verb = "send"
	DoRepeat       Verb = "repeat"
	DoWait         Verb = "wait_ms"
	DoEnd          Verb = "end"
	DoReset        Verb = "reset"       // TCP reset
	DoCut          Verb = "cut"         // close inside the body
	DoHang         Verb = "hang"        // stay open, silent
	DoAwaitClose   Verb = "await_close" // the peer must close within Wait
	DoOnCancel     Verb = "on_cancel"   // what the cancel path answers from now on
	DoGate         Verb = "gate"        // wait for the test
)

// Status sets the status of the answer.
func Status(code int) Op { return Op{Do: DoStatus, Code: code} }

// Header adds a response header.
func Header(name, value string) Op { return Op{Do: DoHeader, Name: name, Value: value} }

// FlushHeaders sends status and headers.
func FlushHeaders() Op { return Op{Do: DoFlushHeaders} }

// Send writes text as one piece.
func Send(text string) Op { return Op{Do: DoSend, Bytes: []byte(text)} }

// Repeat writes text n times with a pause after each.
func Repeat(n int, every time.Duration, text string) Op {
	return Op{Do: DoRepeat, Times: n, Wait: every, Bytes: []byte(text)}
}

// Wait pauses.
func Wait(d time.Duration) Op { return Op{Do: DoWait, Wait: d} }

// Gate waits for a value on, or the end of, a channel.
func Gate(c <-chan struct{}) Op { return Op{Do: DoGate, Gate: c} }

// End ends the body cleanly.
func End() Op { return Op{Do: DoEnd} }

// Reset resets the connection.
func Reset() Op { return Op{Do: DoReset} }

// Cut closes the connection inside the body.
func Cut() Op { return Op{Do: DoCut} }

// Hang stays open and silent until the peer closes.
func Hang() Op { return Op{Do: DoHang} }

// OnCancel answers later cancel calls.
func OnCancel(code int, body, then string) Op {
	return Op{Do: DoOnCancel, Code: code, Bytes: []byte(body), Then: then}
}

// Stream is a script that answers 200 with a content type, sends each piece on
// its own and ends cleanly.
func Stream(contentType string, pieces ...string) Script {
	s := Script{Status(200), Header("Content-Type", contentType), FlushHeaders()}
	for _, p := range pieces {
		s = append(s, Send(p))
	}
	return append(s, End())
}

// SSE is a [Stream] of text/event-stream.
func SSE(pieces ...string) Script { return Stream("text/event-stream", pieces...) }

// Gated returns the script with each pause made to wait for the test: a value
// sent on the gate lets one go on, closing it lets all.
func (s Script) Gated(gate <-chan struct{}) Script {
	out := slices.Clone(s)
	for i, op := range out {
		if op.Do == DoWait {
			out[i] = Op{Do: DoGate, Gate: gate}
		}
	}
	return out
}

// Scaled returns the script with every time multiplied by f.
func (s Script) Scaled(f float64) Script {
	out := make(Script, len(s))
	for i, op := range s {
		op.Wait = time.Duration(float64(op.Wait) * f)
		out[i] = op
	}
	return out
}

// Pieces is a script that answers with a body cut at the given offsets, each
// piece sent on its own a moment after the one before it.
func Pieces(contentType string, body []byte, cuts ...int) Script {
	s := Script{Header("Content-Type", contentType), FlushHeaders()}
	from := 0
	for _, to := range append(slices.Clone(cuts), len(body)) {
		s = append(s, Send(string(body[from:to])), Wait(time.Millisecond))
		from = to
	}
	return append(s, End())
}

// line is the form of a step in a script file.
type line struct {
	Op              Verb
	Code            int
	Name, Value     string
	Text, Hex, Body string
	File            string
	From, To        int
	Times           int
	EveryMS         int `json:"every_ms"`
	MS              int
	WithinMS        int `json:"within_ms"`
	Then            string
	folder          string
}

// LoadScript reads a script file: one JSON object per line.
func LoadScript(t testing.TB, path string) Script {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s Script
	for i, text := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		op, err := parseOp(text, filepath.Dir(path))
		if err != nil {
			t.Fatalf("%s:%d: %v", filepath.Base(path), i+1, err)
		}
		s = append(s, op)
	}
	return s
}

func parseOp(text []byte, folder string) (Op, error) {
	l := line{folder: folder}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Op{}, fmt.Errorf("reading step: %w", err)
	}
	op := Op{
		Do: l.Op, Code: l.Code, Name: l.Name, Value: l.Value, Times: l.Times, Then: l.Then,
		Wait: time.Duration(l.MS+l.EveryMS+l.WithinMS) * time.Millisecond,
	}
	var err error
	op.Bytes, err = l.payload()
	if l.Op == "send_hex" || l.Op == "send_file" {
		op.Do = DoSend
	}
	return op, err
}

// payload returns the bytes that a step sends, whichever way it names them.
func (l *line) payload() ([]byte, error) {
	switch l.Op {
	case "send_hex":
		return hex.DecodeString(l.Hex)
	case "send_file":
		raw, err := os.ReadFile(filepath.Join(l.folder, l.File))
		if err != nil {
			return nil, err
		}
		if l.To < 0 {
			l.To = len(raw)
		}
		return raw[l.From:l.To], nil
	case DoStatus, DoHeader, DoFlushHeaders, DoSend, DoRepeat, DoWait, DoEnd, DoReset, DoCut, DoHang, DoAwaitClose, DoOnCancel, DoGate:
		return []byte(l.Text + l.Body), nil
	}
	return nil, fmt.Errorf("unknown step %q", l.Op)
}
