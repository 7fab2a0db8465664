package testkit

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestUpstreamPlaysAScriptFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wire.bin", "0123456789")
	write("upstream.jsonl", `{"op": "status", "code": 201}
{"op": "header", "name": "X-Test", "value": "v"}
{"op": "flush_headers"}
{"op": "send", "text": "a"}
{"op": "send_hex", "hex": "ff00"}
{"op": "send_file", "file": "wire.bin", "from": 2, "to": 4}
{"op": "send_file", "file": "wire.bin", "from": 8, "to": -1}
{"op": "repeat", "times": 2, "every_ms": 1, "text": "-{{i}}"}
{"op": "wait_ms", "ms": 1}
{"op": "end"}`)
	u := NewUpstream(t)
	s := u.Stage(LoadScript(t, filepath.Join(folder, "upstream.jsonl")))
	a := NewClient("http://"+u.Addr()).Do(t, Ask{Path: "/x?y", Body: "hello"})
	if got, want := string(a.Want(201).Body()), "a\xff\x002389-1-2"; got != want {
		t.Errorf("got body %q, want %q", got, want)
	}
	c := s.Call(t, 1)
	if !c.AwaitEnd(t) {
		t.Error("script counts as broken off, want it complete")
	}
	if a.Header.Get("X-Test") != "v" || c.Method != http.MethodPost || c.URI != "/x?y" || string(c.Body) != "hello" {
		t.Errorf("got header %q and call %s %s %q", a.Header.Get("X-Test"), c.Method, c.URI, c.Body)
	}
}

func TestUpstreamEndsAsItsScriptSays(t *testing.T) {
	u := NewUpstream(t)
	c := NewClient("http://" + u.Addr())
	head := Script{FlushHeaders(), Send("data: 1\n\n")}
	for name, s := range map[string]struct {
		script Script
		want   error
	}{
		"end":   {append(slices.Clone(head), End()), nil},
		"cut":   {append(slices.Clone(head), Cut()), io.ErrUnexpectedEOF},
		"reset": {append(slices.Clone(head), Reset()), syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			stage := u.Stage(s.script)
			_, err := c.On(stage).Do(t, Ask{Path: "/"}).Bytes()
			if !errors.Is(err, s.want) {
				t.Errorf("got %v, want %v", err, s.want)
			}
			if complete := stage.Call(t, 1).AwaitEnd(t); complete != (s.want == nil) {
				t.Errorf("script complete = %v, want %v", complete, s.want == nil)
			}
		})
	}
	stage := u.Stage(Script{Reset()})
	if a, err := c.On(stage).Try(t, Ask{Path: "/"}); err == nil {
		t.Errorf("a reset before the headers gave status %d, want an error", a.Status)
	}
}

func TestUpstreamNoticesThatItsPeerLeft(t *testing.T) {
	u := NewUpstream(t)
	for name, leave := range map[string]func(*Answer){"reset": (*Answer).Drop, "close": (*Answer).Close} {
		t.Run(name, func(t *testing.T) {
			s := u.Stage(Script{FlushHeaders(), Send("data: 1\n\n"), Hang()})
			a := NewClient("http://"+u.Addr()).On(s).Do(t, Ask{Path: "/"})
			a.Next()
			call := s.Call(t, 1)
			if !call.IsOpen() {
				t.Error("call counts as closed before its peer left")
			}
			leave(a)
			call.AwaitClose(t)
			if call.AwaitEnd(t) {
				t.Error("script counts as complete, want it broken off")
			}
		})
	}
}

// TestUpstreamNoticesThatItsPeerLeftWhileItSends has more to send than any
// buffer between the two holds.
func TestUpstreamNoticesThatItsPeerLeftWhileItSends(t *testing.T) {
	u := NewUpstream(t)
	script := Script{FlushHeaders()}
	for range 2000 {
		script = append(script, Send(strings.Repeat("x", 64<<10)))
	}
	s := u.Stage(append(script, End()))
	NewClient("http://"+u.Addr()).On(s).Do(t, Ask{Path: "/"}).Drop()
	if call := s.Call(t, 1); call.AwaitEnd(t) {
		t.Error("script counts as complete, want it broken off")
	} else if n := call.Wrote(); n >= 2000*64<<10 {
		t.Errorf("all %d bytes count as written", n)
	}
}

func TestUpstreamStopsAStreamOnACancelCall(t *testing.T) {
	u := NewUpstream(t)
	s := u.Stage(Script{OnCancel(202, "ok", "stop"), FlushHeaders(), Send("data: 1\n\n"), Hang()})
	c := NewClient("http://" + u.Addr()).On(s)
	a := c.Do(t, Ask{Path: "/run", Body: "{}"})
	a.Next()
	cancel := c.Do(t, Ask{Path: "/run/cancel", Body: "{}"})
	if got := string(cancel.Want(202).Body()); got != "ok" {
		t.Errorf("cancel answered %q, want ok", got)
	}
	if rest := a.Rest(); len(rest) != 0 {
		t.Errorf("got %d more events, want a clean end", len(rest))
	}
	if s.Starts() != 1 || len(s.Cancels()) != 1 {
		t.Errorf("got %d starts and %d cancels, want 1 and 1", s.Starts(), len(s.Cancels()))
	}
}

func TestStagesPlayOneScriptPerCall(t *testing.T) {
	u := NewUpstream(t)
	first, second := u.Stage(SSE("data: a\n\n"), SSE("data: b\n\n")), u.Stage(SSE("data: c\n\n"))
	c := NewClient("http://" + u.Addr())
	var got []string
	for _, s := range []*Stage{first, first, first, second} {
		got = append(got, c.On(s).Do(t, Ask{Path: "/"}).Next().Data)
	}
	if want := []string{"a", "b", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScriptsTakeFakeTimeInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &Upstream{}
		s := u.Stage(Script{FlushHeaders(), Repeat(3, time.Hour, "data: {{i}}\n\n"), End()}.Scaled(2))
		begin := time.Now()
		events := ServePipe(t, http.HandlerFunc(s.ServeHTTP)).Do(t, Ask{Path: "/"}).Rest()
		var after []time.Duration
		for _, ev := range events {
			after = append(after, ev.At.Sub(begin))
		}
		if want := []time.Duration{0, 2 * time.Hour, 4 * time.Hour}; !slices.Equal(after, want) {
			t.Errorf("events came after %v, want %v", after, want)
		}
	})
}

func TestCheckIDsFindsAGap(t *testing.T) {
	event := func(id string) Event { return Event{Name: "message", ID: id, Own: true} }
	for name, c := range map[string]struct {
		events []Event
		fails  bool
	}{
		"consecutive":  {[]Event{event("r.1"), event("r.2"), {Name: "run.state"}, event("r.3")}, false},
		"gap":          {[]Event{event("r.1"), event("r.3")}, true},
		"repeat":       {[]Event{event("r.1"), event("r.1")}, true},
		"other run":    {[]Event{event("s.1")}, true},
		"without id":   {[]Event{{Name: "message"}}, true},
		"wrong origin": {[]Event{event("r.2")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			probe := &probeT{TB: t}
			probe.run(func() { CheckIDs(probe, "r", 1, c.events) })
			if probe.failed != c.fails {
				t.Errorf("failed = %v (%s), want %v", probe.failed, strings.TrimSpace(probe.text), c.fails)
			}
		})
	}
}
