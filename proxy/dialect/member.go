package dialect

import (
	"bytes"
	"strconv"
	"strings"
)

// member returns the value of a member of an object, as it stands there, or
// nil. Unlike a search for the name it cannot find a member that stands deeper,
// and unlike a parse it allocates nothing.
func member(data []byte, name string) []byte {
	data = skipSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	for {
		key, rest := cutValue(skipSpace(data[1:]))
		if rest = skipSpace(rest); len(key) < 2 || key[0] != '"' || len(rest) == 0 || rest[0] != ':' {
			return nil
		}
		value, rest := cutValue(skipSpace(rest[1:]))
		if string(key[1:len(key)-1]) == name {
			return value
		}
		if data = skipSpace(rest); len(data) == 0 || data[0] != ',' {
			return nil
		}
	}
}

// at follows the names and numbers of a path, which are joined by dots.
func at(data []byte, path string) []byte {
	for path != "" && data != nil {
		var name string
		name, path, _ = strings.Cut(path, ".")
		if data = skipSpace(data); len(data) > 0 && data[0] == '[' {
			data = element(data, name)
		} else {
			data = member(data, name)
		}
	}
	return data
}

// element returns the value at a place in an array, or nil.
func element(data []byte, place string) []byte {
	n, err := strconv.Atoi(place)
	for ; err == nil; n-- {
		value, rest := cutValue(skipSpace(data[1:]))
		if len(value) == 0 || n < 0 {
			return nil
		}
		if n == 0 {
			return value
		}
		if data = skipSpace(rest); len(data) == 0 || data[0] != ',' {
			return nil
		}
	}
	return nil
}

// unquoted returns the content of a string without escapes; nil is none.
func unquoted(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil
	}
	return value[1 : len(value)-1]
}

// cutValue cuts the first value off. It is empty if the value has no end.
func cutValue(data []byte) (value, rest []byte) {
	end := 0
	switch {
	case len(data) == 0:
	case data[0] == '"':
		end = endOfString(data)
	case data[0] == '{', data[0] == '[':
		end = endOfNested(data)
	default:
		if end = bytes.IndexAny(data, ",}] \t\r\n"); end < 0 {
			end = len(data)
		}
	}
	return data[:end], data[end:]
}

// endOfString returns the length of a string with its quotes, 0 if it does not
// end.
func endOfString(data []byte) int {
	for i := 1; i < len(data); i++ {
		next := bytes.IndexByte(data[i:], '"')
		if next < 0 {
			return 0
		}
		i += next
		escapes := 0
		for data[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return 0
}

// endOfNested returns the length of an object or array, 0 if it does not end.
func endOfNested(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			n := endOfString(data[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}
