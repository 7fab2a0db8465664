package dialect

import "bytes"

// scanner goes through the members of JSON at every depth without parsing it:
// from colon to colon. A colon that follows a bare quote ends a member's name,
// since inside a string every quote is escaped. That tells whether a frame is
// worth a parse, in one pass over its bytes.
type scanner struct{ rest, before []byte }

func scan(data []byte) scanner { return scanner{rest: data, before: data[:0]} }

// longestName bounds the names that a scanner sees.
const longestName = 32

// next returns the name of the next member and what follows its colon, which
// is not empty. Members with longer names than anybody asks for are left out.
func (s *scanner) next() (name, value []byte, ok bool) {
	for {
		i := bytes.IndexByte(s.rest, ':')
		if i < 0 {
			return nil, nil, false
		}
		before := s.rest[:i]
		s.rest = s.rest[i+1:]
		if value = skipSpace(s.rest); len(value) == 0 {
			return nil, nil, false
		}
		if name, ok = lastString(before); ok {
			return name, value, true
		}
	}
}

// lastString returns the string at the end of data.
func lastString(data []byte) ([]byte, bool) {
	n := len(data)
	for n > 0 && isSpace(data[n-1]) {
		n--
	}
	if n < 2 || data[n-1] != '"' {
		return nil, false
	}
	data = data[max(0, n-2-longestName) : n-1]
	open := bytes.LastIndexByte(data, '"')
	if open < 0 {
		return nil, false
	}
	return data[open+1:], true
}

// says reports whether a value is something: not null, not false, not an empty
// string.
func says(value []byte) bool {
	switch value[0] {
	case 'n', 'f':
		return false
	case '"':
		return len(value) > 1 && value[1] != '"'
	default:
		return true
	}
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
func leading(data []byte, name string) ([]byte, bool) {
	s := scan(data)
	first, value, ok := s.next()
	if !ok || string(first) != name || value[0] != '"' || !opens(data, len(data)-len(s.rest)-len(name)) {
		return nil, false
	}
	end := bytes.IndexAny(value[1:], `"\`)
	if end < 0 || value[1+end] == '\\' {
		return nil, false
	}
	return value[1 : 1+end], true
}
