package dialect

import "bytes"

// Inside a JSON string every quote is escaped. So a name with bare quotes on
// both sides, followed by a colon, is a member's name at some depth: one search
// for bytes tells whether a frame is worth a parse.

// member is the name of a JSON member with its quotes.
type member []byte

// begins reports whether data has a member of this name whose value begins
// with c.
func (m member) begins(data []byte, c byte) bool {
	for {
		i := bytes.Index(data, m)
		if i < 0 {
			return false
		}
		data = data[i+len(m):]
		if v, ok := valueAfterName(data); ok && v[0] == c {
			return true
		}
	}
}

// holdsText reports whether data has a member of this name that is a string
// and not empty.
func (m member) holdsText(data []byte) bool {
	for {
		i := bytes.Index(data, m)
		if i < 0 {
			return false
		}
		data = data[i+len(m):]
		if v, ok := valueAfterName(data); ok && len(v) > 1 && v[0] == '"' && v[1] != '"' {
			return true
		}
	}
}

// in reports whether data has a member of this name, or a string that is equal
// to it.
func (m member) in(data []byte) bool { return bytes.Contains(data, m) }

// valueAfterName skips the colon; the value it returns is not empty.
func valueAfterName(data []byte) ([]byte, bool) {
	data = skipSpace(data)
	if len(data) == 0 || data[0] != ':' {
		return nil, false
	}
	data = skipSpace(data[1:])
	return data, len(data) > 0
}

func skipSpace(data []byte) []byte {
	for len(data) > 0 && isSpace(data[0]) {
		data = data[1:]
	}
	return data
}

// isSpace: the white space of JSON (RFC 8259, section 2).
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// leading returns the value of the first member of an object if that member
// has this name and a string without escapes; nearly every typed frame begins
// with its type.
func (m member) leading(data []byte) ([]byte, bool) {
	data = skipSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return nil, false
	}
	data, ok := bytes.CutPrefix(skipSpace(data[1:]), m)
	if !ok {
		return nil, false
	}
	value, ok := valueAfterName(data)
	if !ok || value[0] != '"' {
		return nil, false
	}
	end := bytes.IndexAny(value[1:], `"\`)
	if end < 0 || value[1+end] == '\\' {
		return nil, false
	}
	return value[1 : 1+end], true
}
