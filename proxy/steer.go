package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// steering is one steer under its key; the result is there when done is closed.
type steering struct {
	body runregistry.Digest
	done chan struct{}
	err  error
}

// steers are the steers that this process has sent, by run and key: a repeated
// one gets the first one's result. The key goes along, for backends that tell
// repetitions apart themselves.
type steers struct {
	mu  sync.Mutex // guards all
	all map[runregistry.Digest]*steering
}

// begin returns the steer of a key, and whether it is new. It is kept for a
// while.
func (s *steers) begin(key, body runregistry.Digest, keep time.Duration) (st *steering, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.all[key]; ok {
		return st, false
	}
	if s.all == nil {
		s.all = make(map[runregistry.Digest]*steering)
	}
	st = &steering{body: body, done: make(chan struct{})}
	s.all[key] = st
	time.AfterFunc(keep, func() { s.drop(key, st) })
	return st, true
}

// drop forgets a steer, so that its key may be used again.
func (s *steers) drop(key runregistry.Digest, st *steering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[key] == st {
		delete(s.all, key)
	}
}

// serveSteer serves POST {api}/{run}/steer: further input for an active run.
func (h *Handler) serveSteer(w http.ResponseWriter, r *http.Request, id string) error {
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	if err := h.guardWrite(r, caller); err != nil {
		return err
	}
	body, whole, err := readBody(r, h.cfg.Limits.RequestBody)
	switch {
	case err != nil:
		return &Problem{Code: codeMalformedRequest, Detail: "The request body ended early.", Err: err}
	case !whole:
		return refuse(codeTooLarge, "The body is larger than request_body allows.")
	}
	outgoing, err := h.cfg.Guard.check(r.URL, body)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r.Header)
	if err == nil && key == "" {
		err = refuse(codeKeyMissing, "Send an Idempotency-Key, a new one for each new input.")
	}
	if err != nil {
		return err
	}
	rec, err := h.writable(r, caller, id)
	if err != nil {
		return err
	}
	if err := h.steerOnce(r, rec, key, body, outgoing); err != nil {
		return err
	}
	noStore(w.Header())
	w.Header().Set(headerRunID, string(rec.ID))
	return writeJSON(w, http.StatusAccepted, map[string]any{"run_id": rec.ID, "status": "accepted"})
}

// steerOnce steers under a key, or returns what came of the first request with
// it.
func (h *Handler) steerOnce(r *http.Request, rec *runregistry.Record, key string, body, outgoing []byte) error {
	all := &h.deps.Engine.steers
	name := digest([]byte(rec.ID), []byte(key))
	st, first := all.begin(name, digest(body), h.cfg.Deadline)
	if !first {
		select {
		case <-st.done:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		if st.body != digest(body) {
			return runregistry.ErrKeyReused
		}
		return st.err
	}
	sent, err := h.steerNoted(r, rec, name, st.body, outgoing)
	if !sent {
		all.drop(name, st) // it may be tried again
	}
	st.err = err
	close(st.done)
	return err
}

// steer sends the input on. sent tells that the backend may have got it.
func (h *Handler) steer(r *http.Request, rec *runregistry.Record, body []byte) (sent bool, err error) {
	if rec.State != runregistry.Running && rec.State != runregistry.Waiting || rec.Ending {
		return false, refuse(codeNotSteerable, "It takes no more input.").with("state", rec.State)
	}
	at, base := h.whereabouts(r, rec)
	e, err := at.steer(&h.cfg.Steer)
	switch {
	case errors.Is(err, errNoWay):
		return false, refuse(codeSteerUnsupported, "There is no way to give this run further input.")
	case errors.Is(err, errUnknownVariable):
		return false, refuse(codeNotSteerable, "It is not known yet how the backend calls this run. Try again.").with("state", rec.State)
	case err != nil:
		return false, &Problem{Code: codeNotSteerable, Detail: "Its names cannot stand in a path.", Err: err}
	case !h.deps.Engine.trusted():
		return false, refuse(codeStore, "Nothing was sent to the backend. Try again.")
	}
	e.body, e.contentType, e.key = body, r.Header.Get("Content-Type"), r.Header.Get(headerIdempotencyKey)
	answer, err := h.lend(r)(base).once(r.Context(), e)
	switch {
	case err != nil && h.deps.Host.Undelivered(err):
		return false, &Problem{Code: codeUnreachable, Detail: "The input was not delivered. Try again.", Err: err}
	case err != nil:
		return true, &Problem{Code: codeUpstreamTimeout, Detail: "It is not known whether the backend got the input.", Err: err}
	case !answer.accepted():
		return !answer.again(), refuse(codeUpstreamInvalid, "The backend did not take the input.").with("upstream_status", answer.status)
	}
	return true, nil
}

// whereabouts is what calls about a run stand on: what its pump knows, else
// what its record tells and the request at hand.
func (h *Handler) whereabouts(r *http.Request, rec *runregistry.Record) (bearings, *ground) {
	if p := h.deps.Engine.local(rec.ID); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ground != nil {
			return p.bearings, p.ground
		}
	}
	about := aboutRun(rec, rec.State, "")
	request := h.deps.Host.Detach(context.WithValue(context.Background(), insideKey{}, true), r, about)
	h.prepareUpstream(request, &start{})
	next, _ := r.Context().Value(nextKey{}).(Next)
	return bearingsOf(rec), newGround(h.deps.Host, request, next, about)
}
