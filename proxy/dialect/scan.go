package dialect

import "bytes"

// signs are the members that were seen in a frame, a bit for each name that was
// asked for, in that order.
type signs uint8

// seen goes through the members of JSON at every depth, without parsing it, and
// reports which of the names have a value that says something: not null, not
// false, not an empty string. One pass over the bytes tells whether a frame is
// worth a parse.
//
// It goes from colon to colon: one that follows a quoted name is a member's.
// Text cannot look like a member, since inside a string every quote is escaped.
func seen(data []byte, names ...string) (found signs) {
	for {
		i := bytes.IndexByte(data, ':')
		if i < 0 {
			return found
		}
		before := trimSpaceRight(data[:i])
		data = data[i+1:]
		for bit, name := range names {
			if endsWithName(before, name) && says(skipSpace(data)) {
				found |= 1 << bit
			}
		}
	}
}

// endsWithName reports whether data ends with a quoted name. What stands before
// an opening quote of a name cannot stand inside a string before a bare quote.
func endsWithName(data []byte, name string) bool {
	closing := len(data) - 1
	opening := closing - len(name) - 1
	return opening >= 0 && data[closing] == '"' && data[opening] == '"' &&
		string(data[opening+1:closing]) == name && (opening == 0 || beginsMember(data[opening-1]))
}

func beginsMember(c byte) bool { return c == '{' || c == ',' || isSpace(c) }

func trimSpaceRight(data []byte) []byte {
	for len(data) > 0 && isSpace(data[len(data)-1]) {
		data = data[:len(data)-1]
	}
	return data
}

func says(value []byte) bool {
	if len(value) == 0 {
		return false
	}
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
	data = skipSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return nil, false
	}
	data, ok := quoted(skipSpace(data[1:]))
	if !ok || len(data) <= len(name) || string(data[:len(name)]) != name || data[len(name)] != '"' {
		return nil, false
	}
	data = skipSpace(data[len(name)+1:])
	if len(data) == 0 || data[0] != ':' {
		return nil, false
	}
	value, ok := quoted(skipSpace(data[1:]))
	end := bytes.IndexAny(value, `"\`)
	if !ok || end < 0 || value[end] == '\\' {
		return nil, false
	}
	return value[:end], true
}

// quoted returns what follows a quote.
func quoted(data []byte) ([]byte, bool) { return bytes.CutPrefix(data, []byte{'"'}) }
