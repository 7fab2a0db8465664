package frame

// byteOrderMark is dropped once, from the start of a body.
const byteOrderMark = "\xEF\xBB\xBF"

// place is where in the body the next byte stands. The places are states of a
// machine that moves byte by byte, so nothing depends on the chunking;
// searching for the end of a line only makes its steps longer.
type place uint8

const (
	// atStart: before the body, or within a byte order mark.
	atStart place = iota
	// between blocks: blank lines and comments that stand here belong to none.
	between
	// inComment: in a comment between blocks, which is dropped as it comes, so
	// that any number and length of keepalives costs no memory.
	inComment
	// inLine: within a line of a block.
	inLine
	// afterLF, afterCR, afterCRLF: in a block, at the start of a line, after a
	// line that ended so. After CR, an LF still belongs to that line end.
	afterLF
	afterCR
	afterCRLF
	// afterBlankCR: the blank line that ends the block has begun with CR, and an
	// LF is expected to follow.
	afterBlankCR
)

// sseCutter cuts event streams. A block ends with a blank line, and one that
// has a data or an event field is a frame.
//
// A CR may be a line end or half of one. The end of a block must not wait to
// find out, since the next byte may be a minute away; but the frame must not
// depend on whether the next byte is there yet. So it depends on bytes before
// it only: if the line before the blank one ended with CRLF, the blank line
// does as well, and its LF is waited for; else the block ends at the CR, and
// an LF that follows is dropped.
type sseCutter struct {
	held
	at     place
	frame  Frame
	lastID []byte
	err    error
}

// Pending implements [Cutter].
func (c *sseCutter) Pending() int { return len(c.held.bytes) }

// LastID implements [Cutter].
func (c *sseCutter) LastID() []byte { return c.lastID }

// Cut implements [Cutter].
func (c *sseCutter) Cut(p []byte, s Sink) error {
	if c.err == nil {
		c.err = c.cut(p, s)
	}
	return c.err
}

func (c *sseCutter) cut(p []byte, s Sink) error {
	if c.at == atStart {
		p = c.unmark(p, s)
	}
	ends := lineEndsOf(p)
	for i := 0; i < len(p); {
		if c.at == between || c.at == inComment {
			block := c.skip(&ends, i)
			s.drop(p[i:block])
			i = block
			continue
		}
		end, whole := c.scan(&ends, i)
		if !whole {
			return c.add(p[i:])
		}
		if err := c.deliver(p[i:end], s); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// unmark takes a byte order mark off the start of the body and returns what
// follows it. A part of a mark is held back; if it turns out to be none, it is
// the beginning of the first line.
func (c *sseCutter) unmark(p []byte, s Sink) []byte {
	seen := len(c.held.bytes)
	n := 0
	for n < len(p) && seen+n < len(byteOrderMark) && p[n] == byteOrderMark[seen+n] {
		n++
	}
	switch {
	case seen+n == len(byteOrderMark):
		s.drop(c.held.bytes)
		s.drop(p[:n])
		c.release()
		c.at = between
		return p[n:]
	case n == len(p):
		c.held.bytes = append(c.held.bytes, p...)
		return nil
	case seen+n == 0:
		c.at = between
	default:
		c.at = inLine
	}
	return p
}

// skip returns where the next block begins.
func (c *sseCutter) skip(ends *lineEnds, i int) int {
	for p := ends.b; i < len(p); {
		switch b := p[i]; {
		case c.at == inComment:
			if i = ends.next(i); i < len(p) {
				c.at = between
			}
		case b == '\n' || b == '\r':
			i++
		case b == ':':
			c.at = inComment
		default:
			c.at = inLine
			return i
		}
	}
	return i
}

// scan returns where the block at hand ends, and whether its end is there.
func (c *sseCutter) scan(ends *lineEnds, i int) (int, bool) {
	for p := ends.b; i < len(p); {
		switch b := p[i]; {
		case c.at == inLine:
			if i = ends.next(i); i < len(p) {
				c.at = afterLF
				if p[i] == '\r' {
					c.at = afterCR
				}
				i++
			}
		case c.at == afterBlankCR:
			c.at = between
			if b == '\n' {
				i++
			}
			return i, true
		case b == '\n' && c.at == afterCR:
			c.at = afterCRLF
			i++
		case b == '\r' && c.at == afterCRLF:
			c.at = afterBlankCR
			i++
		case b == '\n' || b == '\r':
			c.at = between
			return i + 1, true
		default:
			c.at = inLine
		}
	}
	return i, false
}

// deliver hands on the block that ends with p.
func (c *sseCutter) deliver(p []byte, s Sink) error {
	block, err := c.join(p)
	if err != nil {
		return err
	}
	f := &c.frame
	f.parseBlock(block)
	if f.HasID {
		c.lastID = append(shrink(c.lastID), f.ID...)
	}
	if f.HasData || f.hasEvent {
		err = s.Frame(f)
	} else {
		s.drop(block)
	}
	c.release()
	f.joined, f.cleaned = shrink(f.joined), shrink(f.cleaned)
	return err
}

// End implements [Cutter].
func (c *sseCutter) End(s Sink, _ bool) error {
	if c.err != nil {
		return c.err
	}
	c.err = errEnded
	if c.at == afterBlankCR {
		return c.deliver(nil, s)
	}
	s.drop(c.held.bytes)
	c.held.bytes = nil
	return nil
}
