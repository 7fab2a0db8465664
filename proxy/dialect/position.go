package dialect

import (
	"cmp"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// PositionOf returns upstream's own name for a frame, or nothing.
func (d *Dialect) PositionOf(f *frame.Frame) string {
	if d.Position != nil {
		return d.Position(f)
	}
	return kept(string(f.ID))
}

// Whole is the position of every frame of a stream that gives none, if it begins
// with all that was made so far when it is joined: see [Dialect.Tells].
const Whole = "whole"

// Tells reports whether a frame holds all that its run has made so far.
func (d *Dialect) Tells(f *frame.Frame) bool { return d.whole != nil && d.whole(f) }

// byMemberPosition reads positions that stand in a member of the JSON.
func byMemberPosition(path string) func(*frame.Frame) string {
	return func(f *frame.Frame) string {
		return kept(gjson.GetBytes(f.Data, path).String())
	}
}

// Follows compares the position of a frame with one that was reached before:
// +1 when the frame comes later, 0 when it is that very frame, and -1 when it
// comes earlier. Positions that are no numbers are only told from equal ones.
func Follows(position, reached string) int {
	if position == reached {
		return 0
	}
	p, err := strconv.ParseInt(position, 10, 64)
	r, err2 := strconv.ParseInt(reached, 10, 64)
	if err != nil || err2 != nil {
		return 1
	}
	return cmp.Compare(p, r)
}

// Skips reports whether a position is a number, and not the one after the
// number that was reached before.
func Skips(position, reached string) bool {
	p, err := strconv.ParseInt(position, 10, 64)
	r, err2 := strconv.ParseInt(reached, 10, 64)
	return err == nil && err2 == nil && p > r+1
}
