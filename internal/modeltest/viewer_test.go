package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// viewer is one client over all its connections: what it has seen of a run.
type viewer struct {
	name string

	mu    sync.Mutex // guards everything below
	run   runregistry.RunID
	last  runregistry.Seq // the newest frame it has
	ended bool            // it was told how the run ended
	gone  bool            // it was told that frames are no longer there
	leave context.CancelFunc
}

// connection is one answer on its way to a viewer.
type connection struct {
	world  *world
	viewer *viewer
	header http.Header
	status int
	rest   []byte // of the body, up to the next blank line
}

// Header implements [http.ResponseWriter].
func (c *connection) Header() http.Header { return c.header }

// WriteHeader implements [http.ResponseWriter].
func (c *connection) WriteHeader(status int) {
	if c.status != 0 {
		return
	}
	c.status = status
	if id := runregistry.RunID(c.header.Get("X-Run-Id")); id != "" && status == http.StatusOK {
		c.viewer.mu.Lock()
		c.viewer.run = id
		c.viewer.mu.Unlock()
	}
}

// FlushError makes [http.ResponseController] content.
func (c *connection) FlushError() error { return nil }

// Write implements [http.ResponseWriter].
func (c *connection) Write(p []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	c.rest = append(c.rest, p...)
	if !strings.HasPrefix(c.header.Get("Content-Type"), "text/event-stream") {
		return len(p), nil
	}
	for {
		block, rest, found := bytes.Cut(c.rest, []byte("\n\n"))
		if !found {
			return len(p), nil
		}
		c.rest = rest
		if e := parseBlock(string(block)); e.id != "" || e.data != "" {
			c.world.shown(c.viewer, e)
		}
	}
}

// event is one block of an event stream.
type event struct{ name, id, data string }

func parseBlock(block string) (e event) {
	for line := range strings.Lines(block) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		}
	}
	return e
}

// terminal is what the last event of a run tells, and what says that frames are
// gone.
type terminal struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// shown checks one event that a viewer got.
func (w *world) shown(v *viewer, e event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	cursor, err := runregistry.ParseCursor(e.id)
	if err != nil && e.name != "run.state" || err == nil && cursor.Run != v.run {
		w.violated("%s of %s got event %q with id %q", v.name, v.run, e.name, e.id)
		return
	}
	switch e.name {
	case "":
		w.shownFrame(v, cursor.Seq, e.data)
	case "run.end":
		var t terminal
		_ = json.Unmarshal([]byte(e.data), &t) // an empty state is noticed
		if v.ended || cursor.Seq != v.last+1 {
			w.violated("%s of %s got the end as %d after %d, ended before: %t", v.name, v.run, cursor.Seq, v.last, v.ended)
		}
		v.ended = true
		w.meet("end")
		w.told(v.run, t.State, cursor.Seq)
	case "stream_expired":
		var t terminal
		_ = json.Unmarshal([]byte(e.data), &t)
		v.gone = true
		w.meet("expired")
		w.toldExpired(v, t.Reason)
	case "run.state":
	default:
		w.violated("%s of %s got an unknown event %q", v.name, v.run, e.name)
	}
}

// shownFrame checks a frame: the next one, the right one, and stored.
func (w *world) shownFrame(v *viewer, seq runregistry.Seq, data string) {
	if seq != v.last+1 || v.ended || v.gone {
		w.violated("%s of %s got frame %d after %d (ended %t, expired %t)", v.name, v.run, seq, v.last, v.ended, v.gone)
	}
	if data != frameText(v.run, seq) {
		w.violated("%s of %s got %q as frame %d", v.name, v.run, data, seq)
	}
	v.last = seq
	w.meet("frame")
	w.mustHold(v.run, seq)
}
