package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// maxKeptBody is the largest plain answer that is kept for a retry with its
// key.
const maxKeptBody = 1 << 20

// answer takes upstream's status and header fields: what may be replayed is
// stored before any body byte, the rest waits for the first delivery.
func (p *pump) answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != 0 || p.over {
		return
	}
	if p.ctx.Err() != nil {
		return // reverse_proxy writes 499 when we hang up before an answer
	}
	p.status = status
	p.busy = status == http.StatusServiceUnavailable && p.header.Get("Retry-After") != ""
	p.lastByte, p.lastSeen = time.Now(), time.Now()
	p.chooseDialect()
	kind := p.framing()
	p.stream = kind != frame.Opaque
	p.kind, p.fold = kind, newFolding(p.dialect, kind)
	if err := p.decode(); err != nil {
		p.cancel(err)
		return
	}
	if p.stream && status < http.StatusMultipleChoices {
		dialect.KeepOrigin(p.header)
	}
	first := firstHeader(p.header, p.stream || p.decoder != nil, len(p.cfg.CORS) > 0)
	p.first.Store(&first)
	p.cutter = frame.New(kind, p.cfg.Limits.Frame)
	p.sink = frame.Sink{Frame: p.take}
	p.learnUpstreamID(dialect.RunIDFromHeader(p.header))
	p.note(func(pr *runregistry.Progress) {
		pr.Response = p.response()
		pr.Format = formatOf(kind, p.header)
		pr.Dialect = p.dialect.Name
		pr.Release = p.expandRelease()
	})
	if err := p.commit(); err != nil {
		p.cancel(errLost)
	}
	if id := dialect.ConversationFromHeader(p.header); id != "" {
		p.bind(id)
	}
	p.prepareJoin()
	p.armWatchdog()
}

func (p *pump) chooseDialect() {
	if p.cfg.Dialect != autoDialect {
		p.dialect, _ = p.engine.dialects.Lookup(p.cfg.Dialect)
		p.detected = true
	}
	if p.dialect == nil && p.told != nil {
		p.dialect, p.detected = p.told, true
	}
	if p.dialect == nil {
		p.dialect, p.detected = dialect.DetectByResponse(p.path, p.header)
	}
	p.reader = p.dialect.ReaderOf(p.own)
	p.bearings.dialect = p.dialect
}

// autoDialect is the configured name that means: find out.
const autoDialect = "auto"

// framing decides how the body falls into frames: by its content type, or by
// the dialect's own marks.
func (p *pump) framing() frame.Kind {
	if p.dialect.Framing != nil {
		if kind, ok := p.dialect.Framing(p.header); ok {
			return kind
		}
	}
	if kind, ok := frame.KindOf(p.header.Get("Content-Type")); ok {
		return kind
	}
	return frame.Opaque
}

func formatOf(kind frame.Kind, h http.Header) runregistry.Format {
	switch kind {
	case frame.SSE:
		return runregistry.FormatSSE
	case frame.Lines:
		if strings.HasPrefix(h.Get("Content-Type"), "text/") {
			return runregistry.FormatLines
		}
		return runregistry.FormatNDJSON
	case frame.Opaque:
	}
	return runregistry.FormatOpaque
}

func (p *pump) response() *runregistry.Response {
	size := p.header.Get("Content-Length")
	// Without a key the answer goes as soon as its delivery cannot be claimed.
	p.length = p.contentLength()
	kept := p.stream || !p.keyed || size == "" || len(size) <= 7 && p.length <= maxKeptBody
	head := storedHeader(p.header, p.cfg.ReplayHeaders)
	if encoding := p.header["Content-Encoding"]; !p.stream && len(encoding) > 0 {
		head["Content-Encoding"] = encoding // without it the bytes mean nothing
	}
	return &runregistry.Response{
		Status: p.status, Header: head,
		Stream: p.stream, Sized: !p.stream && size != "" && p.decoder == nil, Kept: kept,
	}
}

// announced is the length of the body that upstream announced.
func (p *pump) announced() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.length
}

func (p *pump) contentLength() (n int64) {
	if _, err := fmt.Sscanf(p.header.Get("Content-Length"), "%d", &n); err != nil {
		return 0
	}
	return n
}

func (p *pump) expandRelease() string {
	if p.cfg.Release == "" {
		return ""
	}
	return p.host.Expand(p.request, p.cfg.Release, p.header)
}

// kindOf is the framing of a stored format.
func kindOf(f runregistry.Format) frame.Kind {
	switch f {
	case runregistry.FormatNDJSON, runregistry.FormatLines:
		return frame.Lines
	case runregistry.FormatOpaque:
		return frame.Opaque
	case runregistry.FormatSSE:
	}
	return frame.SSE
}

// write takes body bytes as they arrive.
func (p *pump) write(b []byte) error {
	if d := p.currentDecoder(); d != nil {
		_, err := d.Write(b)
		return err
	}
	err := p.feed(b)
	if err == nil && p.isPlain() {
		p.throttle.produced(p.ctx, len(b))
		return context.Cause(p.ctx) // nothing is to be learned from the rest
	}
	return err
}

func (p *pump) isPlain() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stream
}

func (p *pump) currentDecoder() *decoder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decoder
}

// feed cuts decoded bytes and commits the frames in them: one read, one
// commit.
func (p *pump) feed(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.cutter == nil {
		return errLost
	}
	p.lastByte = time.Now()
	if !p.stuck {
		p.batch.reset()
	}
	cut := p.cutter.Cut(b, p.sink)
	if err := p.commit(); err != nil {
		return err
	}
	if errors.Is(cut, frame.ErrTooLong) {
		p.cancel(errFrameTooLong)
		return errFrameTooLong
	}
	return cut
}

// take receives one frame from the cutter; p.mu is held.
func (p *pump) take(f *frame.Frame) error {
	if p.stream {
		if !p.detected {
			p.detect(f)
		}
		if !p.passes(f) {
			return nil
		}
	}
	p.accept(f)
	return nil
}

// accept takes a frame that the log does not have; p.mu must be held.
func (p *pump) accept(f *frame.Frame) {
	if p.stream {
		facts := p.reader.Read(f)
		p.learn(facts)
		if p.halt.begun {
			p.foldLate(f, facts)
		}
	} else if p.dialect.Kind == frame.Opaque {
		p.learn(p.reader.Read(f))
	}
	if p.halt.begun {
		return // what it told is all that counts now
	}
	n := len(p.batch.buf)
	p.batch.buf = appendStored(p.batch.buf, p.kind, p.dialect, f)
	p.batch.frames = append(p.batch.frames, p.batch.buf[n:len(p.batch.buf):len(p.batch.buf)])
}

// appendStored appends a frame as it is stored: without upstream's ids, unless
// the clients of its dialect resume by them.
func appendStored(buf []byte, kind frame.Kind, d *dialect.Dialect, f *frame.Frame) []byte {
	if kind == frame.SSE && !d.Wire.IDs {
		return frame.AppendOwn(buf, f.Raw)
	}
	return append(buf, f.Clean...)
}

// detect fixes the dialect with the first frame that has data.
func (p *pump) detect(f *frame.Frame) {
	if len(f.Data) == 0 {
		return
	}
	p.detected = true
	found := dialect.DetectByFrame(p.dialect, f)
	if found == p.dialect {
		return
	}
	p.dialect, p.reader, p.fold = found, found.ReaderOf(p.own), newFolding(found, p.kind)
	p.bearings.dialect = found
	p.prepareJoin()
	p.note(func(pr *runregistry.Progress) { pr.Dialect = found.Name })
}

// note records a change that travels with the next commit.
func (p *pump) note(change func(*runregistry.Progress)) {
	change(&p.batch.progress)
	p.batch.changed = true
}

// learn keeps what a frame told; p.mu is held.
func (p *pump) learn(f dialect.Facts) {
	if f == (dialect.Facts{}) {
		return
	}
	p.learnOutcome(f)
	p.learnUpstreamID(f.UpstreamID)
	p.learnModel(f.Model)
	p.learnUsage(f.Usage)
	p.learnEffect(f)
	if f.Waiting != 0 {
		p.facts.waiting = f.Waiting > 0
		state := runregistry.Running
		if p.facts.waiting {
			state = runregistry.Waiting
		}
		p.note(func(pr *runregistry.Progress) { pr.State = state })
	}
	if f.ConversationID != "" {
		p.bind(f.ConversationID)
	}
	if f.End && !p.facts.ending {
		p.facts.ending = true
		p.note(func(pr *runregistry.Progress) { pr.Ending = true })
		p.armWatchdog()
	}
}

// learnOutcome: an error is never overwritten by a later success.
func (p *pump) learnOutcome(f dialect.Facts) {
	if f.Outcome == dialect.OutcomeNone || p.facts.outcome == dialect.OutcomeFailed {
		return
	}
	p.facts.outcome, p.facts.reason = f.Outcome, runregistry.Reason(f.Reason)
}

func (p *pump) learnUpstreamID(id string) {
	if id != "" {
		p.bearings.upstream = id
		p.halt.learned()
		p.note(func(pr *runregistry.Progress) { pr.UpstreamID = id })
	}
}

func (p *pump) learnModel(model string) {
	if model != "" {
		p.note(func(pr *runregistry.Progress) { pr.Model = model })
	}
}

func (p *pump) learnUsage(u *dialect.Usage) {
	if u == nil {
		return
	}
	p.note(func(pr *runregistry.Progress) {
		pr.Usage = &runregistry.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Reported: true, Complete: u.Complete}
	})
}

// bind lets upstream's conversation id name the run too.
func (p *pump) bind(id string) {
	p.bearings.thread = id
	p.halt.learned()
	alias, err := runregistry.ParseConversationID(id)
	if err != nil {
		return
	}
	if p.bindTo(alias) {
		p.bearings.conversation = alias
		if p.mirror != nil {
			p.mirror.Rename(alias)
		}
	}
}

// bindTo reports whether the store took the name.
func (p *pump) bindTo(alias runregistry.ConversationID) bool {
	err := p.engine.store.Bind(p.storeCtx, p.lease, alias)
	if err != nil {
		p.log.Info("conversation id of upstream is not bound", logRun(p.lease.Run), logError(err))
	}
	return err == nil
}

// commit stores the batch; p.mu must be held. Nothing is shown before it
// returns.
func (p *pump) commit() error {
	if len(p.batch.frames) == 0 && !p.batch.changed {
		return nil
	}
	if p.stuck {
		return p.hold()
	}
	return p.store()
}

func (p *pump) committed(last runregistry.Seq, b *runregistry.Batch) {
	if n := int(last - p.last); n > 0 {
		p.last = last
		p.lastSeen = p.lastByte
		p.bytes += int64(len(p.batch.buf))
		p.engine.metrics.framesStored(n, len(p.batch.buf))
	}
	if b.Position != "" {
		p.join.stored = b.Position
	}
	if p.mirror != nil {
		p.mirror.Position = p.join.stored
		p.mirror.Advance(b.Progress)
		p.mirror.Grow(len(b.Frames), int64(len(p.batch.buf)), p.lastByte)
		p.window.add(last, b.Frames)
	}
	p.batch.changed = false
	p.batch.frames = p.batch.frames[:0]
}
