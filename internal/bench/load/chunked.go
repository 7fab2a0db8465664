package load

import "errors"

var errChunk = errors.New("malformed chunked coding")

// chunked takes the chunked transfer coding (RFC 9112, section 7.1) off a body
// that arrives in pieces. Trailers are not understood.
type chunked struct {
	state chunkState
	left  int // bytes of the current chunk
}

type chunkState uint8

const (
	inSize chunkState = iota
	inSizeEnd
	inExtension
	inData
	inDataEnd
	inLastEnd
	chunksDone
)

// decode appends the payload of src to dst.
func (c *chunked) decode(dst, src []byte) ([]byte, error) {
	for len(src) > 0 {
		if c.state == inData {
			n := min(c.left, len(src))
			dst, src, c.left = append(dst, src[:n]...), src[n:], c.left-n
			if c.left == 0 {
				c.state = inDataEnd
			}
			continue
		}
		if !c.step(src[0]) {
			return dst, errChunk
		}
		src = src[1:]
	}
	return dst, nil
}

// step takes one byte of the coding itself and reports whether it may stand
// there.
func (c *chunked) step(b byte) bool {
	switch c.state {
	case inSize:
		return c.size(b)
	case inExtension:
		if b == '\r' {
			c.state = inSizeEnd
		}
		return true
	case inSizeEnd:
		c.state = inData
		if c.left == 0 {
			c.state = inLastEnd
		}
		return b == '\n'
	case inDataEnd:
		if b == '\n' {
			c.state = inSize
		}
		return b == '\n' || b == '\r'
	case inLastEnd:
		if b == '\n' {
			c.state = chunksDone
		}
		return b == '\n' || b == '\r'
	case inData, chunksDone:
	}
	return false
}

func (c *chunked) size(b byte) bool {
	switch {
	case b >= '0' && b <= '9':
		c.left = c.left<<4 | int(b-'0')
	case b >= 'a' && b <= 'f':
		c.left = c.left<<4 | int(b-'a'+10)
	case b >= 'A' && b <= 'F':
		c.left = c.left<<4 | int(b-'A'+10)
	case b == ';':
		c.state = inExtension
	case b == '\r':
		c.state = inSizeEnd
	default:
		return false
	}
	return c.left < 1<<30
}
