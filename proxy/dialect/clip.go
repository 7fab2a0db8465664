package dialect

import (
	"strings"
	"unicode/utf8"
)

// clip collects text up to [MaxText] bytes. What does not fit is cut on a rune
// boundary, and nothing is taken after a cut: the text stays a prefix.
type clip struct {
	bytes []byte
	cut   bool
}

func (c *clip) add(s string) {
	if c.cut || s == "" {
		return
	}
	if room := MaxText - len(c.bytes); len(s) > room {
		s, c.cut = s[:boundary(s, room)], true
	}
	c.bytes = append(c.bytes, s...)
}

// addBytes is add for bytes, without a copy where they fit.
func (c *clip) addBytes(b []byte) {
	if c.cut || len(c.bytes)+len(b) > MaxText {
		c.add(string(b))
		return
	}
	c.bytes = append(c.bytes, b...)
}

// replace puts s in place of everything from the given length on.
func (c *clip) replace(from int, s string) {
	c.bytes, c.cut = c.bytes[:min(from, len(c.bytes))], false
	c.add(s)
}

// forget drops everything from the given length on.
func (c *clip) forget(from int) {
	if len(c.bytes) > from {
		c.replace(from, "")
	}
}

// text is valid UTF-8 of at most [MaxText] bytes, and whether that is not all
// of it. Validity is looked at here and not piece by piece: a character may have
// come in two pieces.
func (c *clip) text() (s string, cut bool) {
	s = string(c.bytes)
	if utf8.ValidString(s) {
		return s, c.cut
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	fits := boundary(s, MaxText)
	return s[:fits], c.cut || fits < len(s)
}

// boundary returns the longest length up to limit at which s can be cut
// without splitting a character.
func boundary(s string, limit int) int {
	if len(s) <= limit {
		return len(s)
	}
	for i := limit; i >= 0 && i > limit-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return limit // no UTF-8 around here
}

// clipped returns a copy of s of at most [MaxText] bytes, and whether that is
// not all of it. The copy lets go of the frame that s stood in.
func clipped(s string) (string, bool) {
	c := clip{}
	c.add(s)
	return c.text()
}

// maxName bounds what is kept of an id or a name, in bytes. Longer ones are
// nobody's ids.
const maxName = 512

// kept returns a copy of an id or a name, or nothing if it is too long to be
// one.
func kept(s string) string {
	if len(s) > maxName {
		return ""
	}
	return strings.Clone(s)
}
