package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// delivery answers one start with the run that it began or repeats. It counts
// itself in the record, so that a later equal request can be told from a
// retry.
type delivery struct {
	h        *Handler
	w        http.ResponseWriter
	r        *http.Request
	rec      *runregistry.Record
	links    links
	watch    *runregistry.Watch
	standing *standing
	pump     *pump // set when this delivery started the run
	replayed bool
	opened   bool
}

func (h *Handler) newDelivery(w http.ResponseWriter, s *start, found *runregistry.Decision) *delivery {
	return &delivery{
		h: h, w: w, r: s.r, rec: found.Record, links: s.links, watch: found.Watch,
		standing: h.standingOf(s), replayed: found.Match != runregistry.MatchNone,
	}
}

// serve waits for upstream's answer and delivers it. Until then nothing is
// written, so that any status is still possible.
func (d *delivery) serve(ctx context.Context, early time.Duration) error {
	h := d.h
	seat := h.deps.Engine.seats.take(d.rec, h.cfg.Limits.ReadersPerRun)
	defer seat.leave()
	rec, err := d.awaitAnswer(ctx, early)
	if err != nil {
		d.brokeEarly()
		return err
	}
	d.rec = rec
	switch {
	case rec.Response == nil && rec.State.Terminal():
		return d.unanswered()
	case rec.State.Terminal() && d.replayed:
		if err := d.replayable(); err != nil {
			d.brokeEarly()
			return err
		}
	}
	return d.stream(ctx, seat)
}

// awaitAnswer returns when upstream answered, the run ended without an answer,
// or early headers are due.
func (d *delivery) awaitAnswer(ctx context.Context, early time.Duration) (*runregistry.Record, error) {
	due := make(<-chan time.Time)
	if early > 0 {
		timer := time.NewTimer(early)
		defer timer.Stop()
		due = timer.C
	}
	store := d.h.deps.Engine.store
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	var away time.Time // since when the store has not answered
	for {
		rec, err := store.Load(ctx, d.rec.ID)
		switch {
		case err == nil:
			away = time.Time{}
		case errors.Is(err, runregistry.ErrNoRun):
			return nil, deletedProblem(err)
		case !errors.Is(err, runregistry.ErrUnavailable) || !d.h.mayWait(&away):
			return nil, err
		default:
			rec = d.rec
		}
		if rec.Response != nil || rec.State.Terminal() {
			return rec, nil
		}
		select {
		case <-d.watch.C:
		case <-poll.C:
		case <-due:
			return rec, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// deletedProblem answers for a run that was deleted while a start waited for
// its answer.
func deletedProblem(err error) *Problem {
	return &Problem{Code: codeRunCancelled, Detail: "It was deleted on request.", Err: err}
}

// replayable refuses what cannot be replayed to a request that repeats an
// ended run.
func (d *delivery) replayable() error {
	switch {
	case d.rec.Response != nil && !d.rec.Response.Kept:
		return refuse(codeNotRetained, "Start again with a new key.")
	case d.r.Method == http.MethodPost && d.rec.FirstSeq != 1 && d.rec.LastSeq > 0: // expired, or trimmed: not the whole answer
		p := refuse(codeExpired, "The answer is still there as a snapshot.")
		p.Members = expiredMembers(d.rec, d.links, 1, expiryReason(d.rec))
		p.Actions = d.rec.ClientActions()
		return p
	}
	return nil
}

// unanswered answers for a run that ended before upstream's headers. The
// start's own client gets the error through the server's error routes.
func (d *delivery) unanswered() error {
	defer d.brokeEarly()
	d.header()
	p := unansweredProblem(d.rec)
	if d.pump == nil || !d.h.deps.Host.HandlesErrors(d.r, p.Status()) {
		return p
	}
	cause := error(p)
	if failure := d.pump.failure.Load(); failure != nil {
		cause = errors.Join(p, *failure)
	}
	return pass(d.h.deps.Host.Error(p.Status(), cause))
}

// unansweredProblem says how a run ended that has no answer to show.
func unansweredProblem(rec *runregistry.Record) *Problem {
	p := refuse(codeUpstreamTruncated, "The request may have had effects.")
	switch {
	case rec.State == runregistry.Failed && rec.DispatchedAt.IsZero():
		p = undispatchedProblem(rec.Reason)
	case rec.State == runregistry.Cancelled:
		p = refuse(codeRunCancelled, "It was stopped on request.")
	case rec.State == runregistry.Uncertain:
		p = refuse(codeUpstreamTimeout, "The outcome of the request is unknown.")
	case rec.Reason == runregistry.ReasonUpstreamUnreachable:
		p = refuse(codeUnreachable, "Nothing was sent. Try again.")
	case rec.Reason == runregistry.ReasonDeadlineExceeded:
		p = refuse(codeUpstreamTimeout, "The run exceeded its deadline.")
	case rec.Reason == runregistry.ReasonUpstreamError:
		p = refuse(codeUpstreamInvalid, "The request may have had effects.")
	}
	p.Actions = rec.ClientActions()
	return p.with("run_id", rec.ID)
}

// undispatchedProblem says why nothing was sent upstream.
func undispatchedProblem(why runregistry.Reason) *Problem {
	switch why {
	case runregistry.ReasonQueueTimeout:
		return refuse(codeQueueTimeout, "Nothing was sent to the backend. Try again.")
	case runregistry.ReasonGatewayStopped:
		return refuse(codeDraining, "Nothing was sent to the backend. Try again in a moment.")
	default:
		return refuse(codeStore, "Nothing was sent to the backend. Try again.")
	}
}

// header puts the run's own fields on the answer.
func (d *delivery) header() {
	head := d.w.Header()
	head.Set(headerRunID, string(d.rec.ID))
	head.Set(headerAttempt, strconv.Itoa(d.rec.Attempt))
	head.Set(headerConversation, string(d.rec.Conversation))
	head.Add("Link", d.links.header(d.rec.ID)) // upstream's own stay
	if d.replayed {
		head.Set(headerReplayed, "true")
	}
	d.h.deps.Host.Annotate(d.r, aboutRun(d.rec, d.rec.State, ""))
}

// stream writes status, fields and frames.
func (d *delivery) stream(ctx context.Context, seat *seat) error {
	early := d.rec.Response == nil
	d.answerHeader()
	d.event(runregistry.DeliveryOpened)
	d.opened = true
	choose := d.h.viewOwn
	if early {
		choose = d.h.viewEarly
	}
	v, err := choose(d.rec)
	if err != nil {
		return err
	}
	t := d.h.newTail(d.w, v, choose, d.rec, d.links, d.watch, seat, d.standing)
	t.stranger = true
	if d.pump != nil {
		t.throttle = d.pump.throttle
	}
	if err := t.ctrl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		d.event(runregistry.DeliveryBrokeLate)
		return nil
	}
	span := d.h.startReaderSpan(d.r, d.rec, 0)
	end, over := tailWhole, false
	if early {
		end, over = t.awaitAnswer(ctx)
	}
	if !over {
		end = t.run(ctx)
	}
	span.endReader(t, end)
	return d.close(t, end)
}

// answerHeader writes the head of the answer: upstream's, or for early headers
// that of an event stream.
func (d *delivery) answerHeader() {
	head := d.w.Header()
	status := http.StatusOK
	if answer := d.rec.Response; answer != nil {
		status = answer.Status
		mergeHeader(head, d.upstreamHeader(answer))
		if answer.Stream {
			streamHeader(head)
		}
	} else {
		head.Set("Content-Type", "text/event-stream")
		streamHeader(head)
	}
	d.header()
	d.w.WriteHeader(status)
}

// upstreamHeader returns upstream's fields: all of them once, to the delivery
// that started the run, and the stored ones to everybody else.
func (d *delivery) upstreamHeader(answer *runregistry.Response) http.Header {
	if d.pump != nil {
		if first := d.pump.first.Swap(nil); first != nil {
			return *first
		}
	}
	return answer.Header
}

// close tells the record how the delivery ended.
func (d *delivery) close(t *tail, end tailEnd) error {
	if end == tailWhole || end == tailGone && d.hasAll(t) {
		d.event(runregistry.DeliveryDone)
		d.forgetPlain()
		return nil
	}
	d.event(runregistry.DeliveryBrokeLate)
	if end == tailAborted || end == tailInterrupted {
		panic(http.ErrAbortHandler) // an unfinished answer must not look whole
	}
	return nil
}

// hasAll reports whether a client that left had everything: the end marker, or
// as many bytes as the answer has. It need not wait for us to end.
func (d *delivery) hasAll(t *tail) bool {
	rec, err := d.h.deps.Engine.store.Load(context.WithoutCancel(d.r.Context()), d.rec.ID)
	if err != nil || rec.Response == nil {
		return false
	}
	sized := rec.Response.Sized && d.pump != nil && rec.Bytes == d.pump.announced()
	whole := rec.Ending || rec.State == runregistry.Completed || sized || bodiless(d.r.Method, rec.Response.Status)
	return t.after == rec.LastSeq && whole
}

// bodiless reports whether an answer ends with its head (RFC 9110, section
// 6.4.1).
func bodiless(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
}

// forgetPlain drops a plain answer that nobody can ask for again.
func (d *delivery) forgetPlain() {
	if answer := d.rec.Response; answer == nil || answer.Stream || d.pump == nil || d.pump.keyed {
		return
	}
	d.h.deps.Engine.deleteWhenSettled(d.rec.ID)
}

func (d *delivery) brokeEarly() {
	if !d.opened {
		d.event(runregistry.DeliveryBrokeEarly)
		d.opened = true
	}
}

// event counts a step of this delivery; the client may be gone already.
func (d *delivery) event(e runregistry.DeliveryEvent) {
	ctx := context.WithoutCancel(d.r.Context())
	if err := d.h.deps.Engine.store.Deliver(ctx, d.rec.ID, e); err != nil && !errors.Is(err, runregistry.ErrNoRun) {
		d.h.deps.Log.Info("delivery was not counted", logRun(d.rec.ID), logError(err))
	}
}

// viewOwn is a run in its own format.
func (h *Handler) viewOwn(rec *runregistry.Record) (view, error) { return h.ownView(rec), nil }

// viewEarly is a run whose answer was committed as an event stream before
// upstream answered.
func (h *Handler) viewEarly(rec *runregistry.Record) (view, error) {
	return h.eventStream(rec, false), nil
}
