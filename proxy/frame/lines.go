package frame

import "bytes"

// lineCutter cuts line formats. A line ends with LF; a CR before it belongs to
// the line end.
type lineCutter struct {
	held
	frame Frame
	err   error
}

// Pending implements [Cutter].
func (c *lineCutter) Pending() int { return len(c.held.bytes) }

// LastID implements [Cutter].
func (c *lineCutter) LastID() []byte { return nil }

// Cut implements [Cutter].
func (c *lineCutter) Cut(p []byte, s Sink) error {
	if c.err == nil {
		c.err = c.cut(p, s)
	}
	return c.err
}

func (c *lineCutter) cut(p []byte, s Sink) error {
	for {
		i := bytes.IndexByte(p, '\n') + 1
		if i == 0 {
			return c.add(p)
		}
		if err := c.deliver(p[:i], s); err != nil {
			return err
		}
		p = p[i:]
	}
}

// deliver hands on the line that ends with p.
func (c *lineCutter) deliver(p []byte, s Sink) error {
	line, err := c.join(p)
	if err != nil {
		return err
	}
	c.frame.parseLine(line)
	if len(c.frame.Data) > 0 {
		err = s.Frame(&c.frame)
	} else {
		s.drop(line)
	}
	c.release()
	return err
}

// End implements [Cutter].
func (c *lineCutter) End(s Sink, clean bool) error {
	if c.err != nil {
		return c.err
	}
	c.err = errEnded
	if clean {
		return c.deliver(nil, s)
	}
	s.drop(c.held.bytes)
	c.held.bytes = nil
	return nil
}

// parseLine fills f from one line.
func (f *Frame) parseLine(line []byte) {
	f.reset(line)
	line = bytes.TrimSuffix(line, []byte("\n"))
	f.Data, f.HasData = bytes.TrimSuffix(line, []byte("\r")), true
}
