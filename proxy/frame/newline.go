package frame

import "bytes"

// lineEnds finds the ends of lines: LF, CR, or CR and LF. It looks at each
// byte once for either, however short the lines are and however rare one of
// the two is.
type lineEnds struct {
	b      []byte
	lf, cr int // the first ones not before the last position asked for
}

func lineEndsOf(b []byte) lineEnds { return lineEnds{b: b, lf: -1, cr: -1} }

// next returns the position of the first LF or CR not before from, else the
// length of b. from must not decrease from call to call.
func (l *lineEnds) next(from int) int {
	if l.lf < from {
		l.lf = indexFrom(l.b, from, '\n')
	}
	if l.cr < from {
		l.cr = indexFrom(l.b, from, '\r')
	}
	return min(l.lf, l.cr)
}

func indexFrom(b []byte, from int, c byte) int {
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}

// past returns the position after the line end at i.
func past(b []byte, i int) int {
	switch {
	case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
		return i + 2
	case i < len(b):
		return i + 1
	default:
		return i
	}
}

// newline returns the newline style of a block: the first line end in it.
func newline(b []byte) string {
	lf := indexFrom(b, 0, '\n')
	switch cr := bytes.IndexByte(b[:lf], '\r'); {
	case cr < 0:
		return "\n"
	case cr == lf-1 && lf < len(b):
		return "\r\n"
	default:
		return "\r"
	}
}
