package runregistry

import (
	"errors"
	"slices"
)

// MaxLine is how many runs may wait for one conversation.
const MaxLine = 8

// ErrInLine means that a run waits in the line of its conversation and that it
// is not its turn. The watches of a run are woken when it is.
var ErrInLine = errors.New("run waits for its conversation")

// Holder is a run that holds a conversation, or waits for it in its line.
type Holder struct {
	Busy  BusyError
	Lined bool
}

// Speaker returns which of the runs that hold a conversation or wait for it, in
// the order of their admission, it is about: the newest that does not wait,
// else the first in line. There must be one.
func Speaker(holders int, lined func(int) bool) int {
	for i := holders - 1; i >= 0; i-- {
		if !lined(i) {
			return i
		}
	}
	return 0
}

// Contest decides about a conversation that others hold or wait for, in the
// order of their admission. With nil all of them give way, or nobody has to; it
// reports whether the new run takes a place in line instead. Otherwise it
// returns the [*BusyError] of the run that stands in the way.
func (a *Admission) Contest(holders []Holder) (inLine bool, err error) {
	switch {
	case len(holders) == 0 || a.Busy == BusyAllow:
		return false, nil
	case a.Busy == BusyQueue:
		return a.queue(holders)
	}
	var lined *BusyError
	for i := range slices.Backward(holders) {
		h := &holders[i]
		switch {
		case a.Replaces(&h.Busy):
		case !h.Lined:
			return false, &h.Busy
		default:
			lined = &h.Busy
		}
	}
	if lined != nil {
		return false, lined
	}
	return false, nil
}

// queue takes a place in line, if there is one left.
func (a *Admission) queue(holders []Holder) (bool, error) {
	waiting := 0
	for i := range holders {
		if holders[i].Lined {
			waiting++
		}
	}
	if waiting < MaxLine {
		return true, nil
	}
	return false, &holders[Speaker(len(holders), func(i int) bool { return holders[i].Lined })].Busy
}
