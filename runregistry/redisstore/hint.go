package redisstore

import (
	"strconv"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// hint is what the append script publishes: "F first count time state revision
// oldest", a newline, and unless they are large "<size>:<data>" for each frame.
type hint struct {
	first    runregistry.Seq
	count    int
	at       int64
	state    runregistry.State
	revision uint64
	oldest   runregistry.Seq
	frames   []runregistry.Frame // empty when they must be read
}

// parseHint reports whether a message announces frames.
func parseHint(text string) (h hint, ok bool) {
	head, rest, _ := strings.Cut(text, "\n")
	parts := strings.Fields(head)
	if len(parts) != 7 || parts[0] != "F" {
		return h, false
	}
	h = hint{
		first: runregistry.Seq(tidy(parts[1])), count: int(tidy(parts[2])), at: tidy(parts[3]),
		state: runregistry.State(tidy(parts[4])), revision: uint64(tidy(parts[5])), oldest: runregistry.Seq(tidy(parts[6])),
	}
	h.frames = parsePayload(rest, &h)
	return h, true
}

// parsePayload returns all frames of a hint, or none.
func parsePayload(rest string, h *hint) []runregistry.Frame {
	var frames []runregistry.Frame
	for seq := h.first; rest != ""; seq++ {
		size, tail, ok := strings.Cut(rest, ":")
		n, err := strconv.Atoi(size)
		if !ok || err != nil || n < 0 || n > len(tail) {
			return nil
		}
		frames = append(frames, runregistry.Frame{Seq: seq, At: moment(h.at), Data: []byte(tail[:n])})
		rest = tail[n:]
	}
	if len(frames) != h.count {
		return nil
	}
	return frames
}

// follower applies hints to the tail of another instance's run.
type follower struct{ tail *tail }

// message implements [listener].
func (f *follower) message(text string) {
	t := f.tail
	h, frames := parseHint(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if frames {
		t.followLocked(&h)
	} else {
		t.doubtLocked()
	}
	t.wakeLocked()
}

// gap implements [listener]: whatever was said meanwhile was not heard.
func (f *follower) gap() {
	t := f.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = 0 // the server may have lost what it announced
	t.doubtLocked()
	t.wakeLocked()
}

// followLocked applies a hint by its numbers. One that does not continue what
// is known makes the next read ask Redis.
func (t *tail) followLocked(h *hint) {
	end := h.first + runregistry.Seq(h.count) - 1
	t.heard = max(t.heard, h.revision)
	switch {
	case !t.known || t.checked.IsZero():
		t.at.turn++ // the read that follows finds out
		return
	case end <= t.stands.last:
		return // heard before
	case h.first > t.stands.last+1:
		t.doubtLocked()
		return
	}
	st := t.stands
	st.state, st.last, st.first, st.revision = h.state, end, h.oldest, h.revision
	t.learnLocked(st, t.at)
	t.window.add(h.frames)
}
