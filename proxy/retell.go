package proxy

import (
	"bytes"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// retelling is a joined stream of a dialect whose streams begin with the state
// of the run, as it is laid over the log. What is known of the state is left
// out. If all frames follow it from the first one on, those of the log are, too,
// and nothing is missing. Else pieces are, as many as were said while nobody
// listened.
type retelling struct {
	seed  maphash.Seed
	log   []uint64            // the frames with data
	known map[string]struct{} // the events in them
	next  int                 // place in the log of the frame that would repeat it
	state []stated            // what the log does not have of the state
}

// stated is an event that a state told. It is held back while all of the frames
// may follow: the real one says more about it, and has a place among the pieces.
type stated struct {
	event string
	raw   []byte
}

func newRetelling() *retelling {
	return &retelling{seed: maphash.MakeSeed(), known: map[string]struct{}{dialect.Void: {}}}
}

// add takes a frame of the log.
func (t *retelling) add(f *frame.Frame, event string) {
	if len(f.Data) > 0 {
		t.log = append(t.log, maphash.Bytes(t.seed, f.Data))
		t.learn(event)
	}
}

func (t *retelling) learn(event string) {
	if event != "" {
		t.known[event] = struct{}{}
	}
}

func (t *retelling) knows(event string) bool {
	_, ok := t.known[event]
	return ok
}

// passes reports whether a frame is new, while none was. The state that was held
// back is to be told before it.
func (t *retelling) passes(f *frame.Frame, event string) bool {
	if len(f.Data) == 0 {
		return len(t.state) > 0 // a sign of life: the state is told
	}
	switch {
	case t.repeats(maphash.Bytes(t.seed, f.Data)):
		t.state = nil
		return false
	case t.knows(event):
		return false
	case event == "" || t.whole():
		return true
	}
	t.hold(f, event)
	return false
}

// repeats reports whether a frame is the next one of the log. That a stream does
// repeat it is sure once two of its frames were the same: then what stands in the
// log alone is passed over.
func (t *retelling) repeats(sum uint64) bool {
	ahead := t.log[t.next:]
	if t.next < 2 {
		ahead = ahead[:min(1, len(ahead))]
	}
	i := slices.Index(ahead, sum)
	t.next += i + 1
	return i >= 0
}

// whole reports whether the stream has repeated all of the log.
func (t *retelling) whole() bool { return t.next == len(t.log) }

// hold keeps an event of the state; told again, it is as it was told last.
func (t *retelling) hold(f *frame.Frame, event string) {
	i := slices.IndexFunc(t.state, func(s stated) bool { return s.event == event })
	if i < 0 {
		i, t.state = len(t.state), append(t.state, stated{event: event})
	}
	t.state[i].raw = bytes.Clone(f.Raw)
}

// passesRetold is passes for such a dialect; p.mu must be held.
func (p *pump) passesRetold(f *frame.Frame) bool {
	told := p.join.retelling
	if told == nil {
		if p.join.position == "" {
			p.join.position = p.dialect.Retold.Anchor(f)
		}
		p.join.news = time.Now()
		return true
	}
	event := p.dialect.Retold.Event(f)
	if p.join.fresh {
		if !told.passes(f, event) {
			return false
		}
		p.join.fresh, p.join.torn = false, p.join.torn || !told.whole()
		p.tellState(told)
		told.log = nil
	} else if told.knows(event) {
		return false
	}
	told.learn(event)
	p.join.news, p.join.wait = time.Now(), 0
	return true
}

// tellState takes the state that was held back.
func (p *pump) tellState(told *retelling) {
	var parsed frame.Frame
	for _, s := range told.state {
		frame.Parse(p.kind, s.raw, &parsed)
		told.learn(s.event)
		p.accept(&parsed)
	}
	told.state = nil
}

// recollect prepares to lay a stream over the log, if the dialect needs it. It
// reports whether the stream can be joined now.
func (p *pump) recollect() bool {
	if !p.retells() {
		return true
	}
	told := newRetelling()
	err := p.retrace(func(f *frame.Frame) { told.add(f, p.dialect.Retold.Event(f)) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.join.retelling = told
	p.join.blind = p.join.blind || errors.Is(err, runregistry.ErrExpired) // what is repeated would be new
	return err == nil && !p.stuck
}

// retells reports whether streams of the run are laid over its log.
func (p *pump) retells() bool { return p.dialect.Retold != nil && !p.cfg.Join.configured() }

// torn reports whether pieces may be missing in the log; p.mu must be held. Who
// took a run over and joined nothing cannot know it of the streams before.
func (p *pump) torn() bool {
	return p.retells() && (p.join.torn || p.before > 0 && p.join.times == 0)
}
