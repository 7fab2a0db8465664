package modeltest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// kind is what a step does.
type kind string

// The kinds of steps.
const (
	doStart   kind = "start"
	doFrames  kind = "frames" // upstream sends some
	doEnd     kind = "end"    // upstream ends properly
	doBreak   kind = "break"  // upstream's connection breaks
	doJoin    kind = "join"   // a viewer comes, or comes back with its cursor
	doLeave   kind = "leave"
	doStop    kind = "stop"
	doDelete  kind = "delete"
	doPry     kind = "pry" // somebody else asks for it
	doKill    kind = "kill"
	doCut     kind = "cut"
	doFreeze  kind = "freeze"
	doLose    kind = "lose reply"
	doMiss    kind = "miss the reply to the next intent" // in known stories only
	doMend    kind = "mend"
	doWait    kind = "wait"
	instances      = 2
	viewers        = 2 // beside the one that started the run, for each run
)

// step is one thing that happens. Steps name runs by the place of their start
// in the plan, so that a plan from which some are left out means the same.
type step struct {
	do     kind
	slot   int // the run
	at     int // the instance
	viewer int // 0 is the one that started the run
	who    int // index of a subject
	conv   int // 0: none
	key    int // 0: none
	n      int
	wait   time.Duration
	// rush lets the next step begin before this one has had its effect.
	rush bool
}

// String writes the step as a line of a reproduction.
func (s step) String() string {
	var b strings.Builder
	b.WriteString(string(s.do))
	switch s.do {
	case doStart:
		fmt.Fprintf(&b, " run %d at %d by %s, conversation %d, key %d", s.slot, s.at, subjects[s.who], s.conv, s.key)
	case doFrames:
		fmt.Fprintf(&b, " %d of run %d", s.n, s.slot)
	case doEnd, doBreak:
		fmt.Fprintf(&b, " of run %d", s.slot)
	case doJoin:
		fmt.Fprintf(&b, " run %d at %d as viewer %d", s.slot, s.at, s.viewer)
	case doLeave:
		fmt.Fprintf(&b, " run %d as viewer %d", s.slot, s.viewer)
	case doStop, doDelete, doPry:
		fmt.Fprintf(&b, " run %d at %d", s.slot, s.at)
	case doKill, doCut, doMiss, doMend:
		fmt.Fprintf(&b, " %d", s.at)
	case doFreeze:
		fmt.Fprintf(&b, " %d %s", s.at, momentNames[s.n])
	case doLose:
		fmt.Fprintf(&b, " of %d, %d times", s.at, s.n)
	case doWait:
		fmt.Fprintf(&b, " %v", s.wait)
	}
	if s.rush {
		b.WriteString(", and at once")
	}
	return b.String()
}

// lease and retentions of the model: long enough apart that a plan can fall
// between any two of them.
const (
	lease           = 15 * time.Second
	frameRetention  = 20 * time.Second
	recordRetention = 45 * time.Second
)

// waits are those between steps; most are short.
var waits = []time.Duration{
	10 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, lease / 2, lease,
	2*lease + 6*time.Second, frameRetention, recordRetention,
}

// weights say how often a step is of a kind.
var weights = []struct {
	do kind
	n  int
}{
	{doStart, 10},
	{doFrames, 16},
	{doEnd, 6},
	{doBreak, 3},
	{doJoin, 12},
	{doLeave, 5},
	{doStop, 4},
	{doDelete, 6},
	{doPry, 3},
	{doKill, 4},
	{doCut, 3},
	{doFreeze, 3},
	{doLose, 4},
	{doMend, 6},
	{doWait, 12},
}

// plan draws the steps of a seed. It begins with a start.
func plan(r *rand.Rand, length int) []step {
	steps := make([]step, 0, length)
	starts := 0
	for i := range length {
		s := step{do: drawKind(r), at: r.IntN(instances), rush: r.IntN(4) == 0}
		if i == 0 {
			s.do = doStart
		}
		s.slot, s.viewer = r.IntN(max(starts, 1)), r.IntN(1+viewers)
		switch s.do {
		case doStart:
			s.slot = starts
			starts++
			s.key = max(r.IntN(5)-2, 0)
			s.who, s.conv = r.IntN(4)/3, r.IntN(3)
			if s.key > 0 {
				s.conv = s.key // the same request again
			}
		case doFrames:
			s.n = 1 + r.IntN(4)
		case doLose:
			s.n = 1 + r.IntN(3)
		case doFreeze:
			s.n = r.IntN(len(momentNames))
		case doWait:
			s.wait, s.rush = waits[min(r.IntN(len(waits)), r.IntN(len(waits)))], false
		case doEnd, doBreak, doJoin, doLeave, doStop, doDelete, doPry, doKill, doCut, doMiss, doMend:
		}
		steps = append(steps, s)
	}
	return steps
}

func drawKind(r *rand.Rand) kind {
	all := 0
	for _, w := range weights {
		all += w.n
	}
	at := r.IntN(all)
	for _, w := range weights {
		if at -= w.n; at < 0 {
			return w.do
		}
	}
	return doWait
}
