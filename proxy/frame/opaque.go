package frame

// opaqueCutter makes a frame of whatever arrives.
type opaqueCutter struct {
	limit int
	frame Frame
	err   error
}

// Pending implements [Cutter].
func (c *opaqueCutter) Pending() int { return 0 }

// LastID implements [Cutter].
func (c *opaqueCutter) LastID() []byte { return nil }

// Cut implements [Cutter].
func (c *opaqueCutter) Cut(p []byte, s Sink) error {
	for len(p) > 0 && c.err == nil {
		n := min(len(p), c.limit)
		c.frame.parsePiece(p[:n])
		c.err = s.Frame(&c.frame)
		p = p[n:]
	}
	return c.err
}

// End implements [Cutter].
func (c *opaqueCutter) End(Sink, bool) error {
	err := c.err
	if err == nil {
		c.err = errEnded
	}
	return err
}

// parsePiece fills f from an opaque piece.
func (f *Frame) parsePiece(p []byte) {
	f.reset(p)
	f.Data, f.HasData = p, true
}
