package testkit

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// Log collects what a process writes.
type Log struct {
	mu    sync.Mutex // guards everything below
	lines []string
	rest  []byte
	waits []wait
}

// wait is somebody who waits for one of several texts.
type wait struct {
	texts []string
	seen  chan struct{}
}

func newLog() *Log { return &Log{} }

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.rest = rest
		l.add(string(line))
	}
}

// add keeps a line and wakes who waits for it. l.mu must be held.
func (l *Log) add(line string) {
	l.lines = append(l.lines, line)
	kept := l.waits[:0]
	for _, w := range l.waits {
		if containsAny(line, w.texts) {
			close(w.seen)
		} else {
			kept = append(kept, w)
		}
	}
	l.waits = kept
}

func containsAny(line string, texts []string) bool {
	for _, text := range texts {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// seen returns a channel that is closed when a line with one of the texts is
// there.
func (l *Log) seen(texts ...string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := wait{texts: texts, seen: make(chan struct{})}
	for _, line := range l.lines {
		if containsAny(line, texts) {
			close(w.seen)
			return w.seen
		}
	}
	l.waits = append(l.waits, w)
	return w.seen
}

// Lines returns the lines that contain a text.
func (l *Log) Lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// Tail returns the last n lines.
func (l *Log) Tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}

// Fault returns the part of the log around the first race or panic, or "".
func (l *Log) Fault() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, line := range l.lines {
		if containsAny(line, []string{"DATA RACE", "panic", "fatal error:"}) {
			return strings.Join(l.lines[i:min(len(l.lines), i+60)], "\n")
		}
	}
	return ""
}

// Access is one line of the access log.
type Access struct {
	Request struct {
		Method string      `json:"method"`
		URI    string      `json:"uri"`
		Header http.Header `json:"headers"`
	} `json:"request"`
	Status int `json:"status"`
}

// Accesses returns the access log lines of requests whose URI begins with a
// prefix. A request stands in it once its answer has ended.
func (l *Log) Accesses(prefix string) []Access {
	var out []Access
	for _, line := range l.Lines("http.log.access") {
		var a Access
		if json.Unmarshal([]byte(line), &a) == nil && strings.HasPrefix(a.Request.URI, prefix) {
			out = append(out, a)
		}
	}
	return out
}
