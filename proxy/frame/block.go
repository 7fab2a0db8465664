package frame

import "bytes"

// parseBlock fills f from the lines of b up to the blank one.
func (f *Frame) parseBlock(b []byte) {
	f.reset(b)
	sent := 0 // up to here everything is in f.cleaned or left out of it
	ends := lineEndsOf(b)
	for i := 0; i < len(b) && b[i] != '\n' && b[i] != '\r'; {
		end := ends.next(i)
		next := past(b, end)
		if !f.parseField(b[i:end]) {
			f.keep(b[sent:i])
			sent = next
		}
		i = next
	}
	if sent > 0 {
		f.keep(b[sent:])
		f.Clean = f.cleaned
	}
}

// parseField takes one line of a block (HTML Standard, section 9.2.6) and
// reports whether it may be sent on.
func (f *Frame) parseField(line []byte) (sendable bool) {
	name, value := splitField(line)
	switch string(name) {
	case "data":
		f.addData(value)
	case "event":
		f.Event, f.hasEvent = value, true
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			f.ID, f.HasID = value, true
		}
		return false
	case "retry", "": // without a name it is a comment
		return false
	default:
		// To us a field with an odd name, but to a client whose stream begins with
		// this frame the mark would vanish and leave, say, an id.
		return !bytes.HasPrefix(name, []byte(byteOrderMark))
	}
	return true
}

// splitField splits a line at its first colon and takes one space, not more,
// off the value. A line without a colon is a field with an empty value.
func splitField(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

// addData adds the value of one data field. Only a second one makes a copy.
func (f *Frame) addData(value []byte) {
	f.values++
	switch f.values {
	case 1:
		f.Data, f.HasData = value, true
		return
	case 2:
		f.joined = append(f.joined, f.Data...)
	}
	f.joined = append(f.joined, '\n')
	f.joined = append(f.joined, value...)
	f.Data = f.joined
}

// keep adds whole lines to f.cleaned. Where lines were left out, a line that
// ends with CR can meet a blank one that is LF: the two would become one line
// end and the block would not end. An LF more keeps them apart.
func (f *Frame) keep(lines []byte) {
	if n := len(f.cleaned); n > 0 && len(lines) > 0 && f.cleaned[n-1] == '\r' && lines[0] == '\n' {
		f.cleaned = append(f.cleaned, '\n')
	}
	f.cleaned = append(f.cleaned, lines...)
}
