package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// ask is one request with its answer to a program, not to a viewer.
func (w *world) ask(on *instance, method, path, subject string) *httptest.ResponseRecorder {
	ctx, leave := on.attach()
	defer leave()
	answer := httptest.NewRecorder()
	w.handle(on, answer, request(ctx, method, path, subject, ""))
	return answer
}

// handle calls a gateway like a server does, and reports whether the answer was
// left whole.
func (w *world) handle(on *instance, rw http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // panics carry the sentinel itself
			panic(v)
		}
	}()
	next := func(rw http.ResponseWriter, r *http.Request) error { return w.serve(on, rw, r) }
	if err := on.handler.ServeHTTP(rw, r, next); err != nil {
		w.violated("%s %s: handler returned %v", r.Method, r.URL.Path, err)
	}
	return true
}

// code is the code of a problem.
func code(body []byte) string {
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(body, &p) // no code is no known code
	return p.Code
}

// start sends a start and keeps on reading its answer.
func (w *world) start(on *instance, s step) {
	sl := &slot{subject: subjects[s.who]}
	for k := range sl.viewers {
		sl.viewers[k] = &viewer{name: fmt.Sprintf("viewer %d of start %d", k, s.slot)}
	}
	w.slots[s.slot] = sl
	body := fmt.Sprintf(`{"start":%d}`, s.slot)
	if s.key > 0 {
		body = fmt.Sprintf(`{"key":%d}`, s.key)
	}
	ctx, leave := on.attach()
	r := &startRequest{Request: request(ctx, http.MethodPost, "/generate", sl.subject, body), began: time.Now(), deletes: w.deletions(), subject: sl.subject}
	r.Header.Set("Content-Type", "application/json")
	if s.conv > 0 {
		r.conversation = fmt.Sprintf("conv-%d", s.conv)
		r.Header.Set("X-Conversation-Id", r.conversation)
	}
	if s.key > 0 {
		r.key = fmt.Sprintf("%s/%d", sl.subject, s.key)
		r.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", s.key))
		r.Header.Set(headerKey, r.key)
	}
	v := sl.viewers[0]
	v.leave = leave
	w.clients.Go(func() {
		defer v.left(leave)
		c := &connection{world: w, viewer: v, header: make(http.Header)}
		whole := w.handle(on, c, r.Request)
		if ctx.Err() == nil {
			w.started(on, c, r, whole)
		}
	})
}

// startRequest is a start with what the model knows about it.
type startRequest struct {
	*http.Request

	subject, conversation, key string
	began                      time.Time
	deletes                    int // deletions before it
}

// left tells that a connection of the viewer ended.
func (v *viewer) left(leave context.CancelFunc) {
	leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leave = nil
}

// join connects a viewer, with its cursor if it has one.
func (w *world) join(on *instance, s *slot, k int) {
	if s == nil || s.run() == "" {
		return
	}
	v := s.viewers[k]
	run := s.run()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.leave != nil || v.gone {
		return
	}
	v.run = run
	ctx, leave := on.attach()
	v.leave = leave
	r := request(ctx, http.MethodGet, "/_runs/"+string(v.run)+"/events", s.subject, "")
	at := v.last
	if v.ended {
		at++
	}
	if at > 0 {
		r.Header.Set("Last-Event-ID", runregistry.Cursor{Run: v.run, Seq: at}.String())
	}
	ended := v.ended
	w.clients.Go(func() {
		defer v.left(leave)
		c := &connection{world: w, viewer: v, header: make(http.Header)}
		w.handle(on, c, r)
		if ctx.Err() == nil {
			w.joined(on, c, run, ended)
		}
	})
}

// leave closes a viewer's connection.
func (w *world) leave(s *slot, k int) {
	if s == nil {
		return
	}
	v := s.viewers[k]
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.leave != nil {
		v.leave()
	}
}

// stop asks for the end of a run.
func (w *world) stop(on *instance, s *slot) {
	if s == nil || s.run() == "" {
		return
	}
	run := s.run()
	w.fact(run).stopped.Store(true)
	w.clients.Go(func() {
		a := w.ask(on, http.MethodPost, "/_runs/"+string(run)+"/cancel", s.subject)
		switch a.Code {
		case http.StatusOK, http.StatusAccepted:
		case http.StatusNotFound:
			w.mustBeGone(run)
		default:
			w.refused(on, "stop", a.Code, a.Body.Bytes())
		}
	})
}

// remove deletes a run.
func (w *world) remove(on *instance, s *slot) {
	if s == nil || s.run() == "" {
		return
	}
	run := s.run()
	f := w.fact(run)
	f.deleting.Store(true)
	w.mu.Lock()
	w.deletes++
	w.mu.Unlock()
	w.clients.Go(func() {
		a := w.ask(on, http.MethodDelete, "/_runs/"+string(run), s.subject)
		switch {
		case a.Code == http.StatusNoContent:
			w.meet("deleted")
			if _, err := w.observer.Load(context.Background(), run); !errors.Is(err, runregistry.ErrNoRun) {
				w.violated("%s was deleted and is still there: %v", run, err)
			}
		case a.Code == http.StatusConflict && code(a.Body.Bytes()) == "run_active", a.Code == http.StatusNotFound:
		default:
			w.refused(on, "delete", a.Code, a.Body.Bytes())
		}
	})
}

// unknown is a run that does not exist.
var unknown = runregistry.NewRunID(7)

// pry lets somebody else try everything with a run. Each answer is that for a
// run which does not exist.
func (w *world) pry(on *instance, s *slot) {
	if s == nil || s.run() == "" {
		return
	}
	run := s.run()
	w.clients.Go(func() {
		for _, try := range []struct{ method, path string }{
			{http.MethodGet, "/_runs/%s"},
			{http.MethodGet, "/_runs/%s/events"},
			{http.MethodPost, "/_runs/%s/cancel"},
			{http.MethodDelete, "/_runs/%s"},
		} {
			theirs := w.ask(on, try.method, fmt.Sprintf(try.path, run), mallory)
			none := w.ask(on, try.method, fmt.Sprintf(try.path, unknown), mallory)
			if on.troubled.Load() {
				return // the two may have met different stores
			}
			same := theirs.Code == none.Code && bytes.Equal(theirs.Body.Bytes(), none.Body.Bytes())
			if !same || theirs.Code != http.StatusNotFound {
				w.violated("%s %s of somebody else: got %d %s", try.method, try.path, theirs.Code, theirs.Body)
			}
		}
		if a := w.ask(on, http.MethodGet, "/_runs", mallory); strings.Contains(a.Body.String(), `"run_id"`) {
			w.violated("somebody who has no runs is told of %s", a.Body)
		}
	})
}
