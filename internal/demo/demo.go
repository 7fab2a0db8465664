package demo

import (
	"net/http"
	"time"
)

// ReadingSpeed is the default time between two tokens: 25 tokens a second.
const ReadingSpeed = 40 * time.Millisecond

// Options change how the demo behaves. The zero value is the demo as people
// see it.
type Options struct {
	// Interval is the time between two tokens; pauses scale with it. Zero is
	// [ReadingSpeed]; a nanosecond is as fast as the machine allows.
	Interval time.Duration
}

// Demo is the scripted agent and its page. It is safe for concurrent use and
// owns no goroutines.
type Demo struct {
	interval time.Duration
	calls    calls
	mux      *http.ServeMux
}

// Handler returns the demo with its default options.
func Handler() http.Handler { return New(Options{}) }

// New returns a demo whose count of calls starts at zero.
func New(o Options) *Demo {
	d := &Demo{interval: o.Interval, mux: http.NewServeMux()}
	if d.interval == 0 {
		d.interval = ReadingSpeed
	}
	d.mux.HandleFunc("POST /v1/chat/completions", d.serveChat)
	d.mux.HandleFunc("GET /agent/calls", d.serveCalls)
	d.mux.Handle("GET /", page())
	return d
}

// ServeHTTP serves the agent at POST /v1/chat/completions, what it saw at GET
// /agent/calls, and the page everywhere else.
func (d *Demo) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.ServeHTTP(w, r) }
