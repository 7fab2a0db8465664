package frame

import "strings"

// AppendID appends the line "id: <id>" and then the frame, which must be a
// [Frame].Clean or what [AppendEvent] made; it holds no id field, so that a
// client reads ours and no other. The id line ends as the first line of the
// frame does. id must not contain CR, LF or NUL.
func AppendID(dst, clean, id []byte) []byte {
	dst = append(dst, "id: "...)
	dst = append(dst, id...)
	dst = append(dst, newline(clean)...)
	return append(dst, clean...)
}

// AppendEvent appends an SSE block with the event type, unless that is empty,
// and with data. Data may contain anything: each of its lines becomes a data
// field, so that a client reads it with LF for every line end (CR, LF, CRLF),
// and no line of it can be taken for a field. CR, LF and NUL are left out of
// the event type.
func AppendEvent(dst []byte, event string, data []byte) []byte {
	if event = oneLine(event); event != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, event...)
		dst = append(dst, '\n')
	}
	ends := lineEndsOf(data)
	for i := 0; ; {
		end := ends.next(i)
		dst = append(dst, "data: "...)
		dst = append(dst, data[i:end]...)
		dst = append(dst, '\n')
		if end == len(data) {
			return append(dst, '\n')
		}
		i = past(data, end)
	}
}

// oneLine returns s without the characters that could end its field.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n\x00") {
		return s
	}
	return strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(s)
}

// AppendOwn appends a frame as upstream sent it for clients that resume by
// upstream's own ids: without comments and retry fields, but with its id.
func AppendOwn(dst, raw []byte) []byte {
	f := Frame{cleaned: dst}
	ends := lineEndsOf(raw)
	for i := 0; i < len(raw); {
		end := ends.next(i)
		next := past(raw, end)
		if name, _ := splitField(raw[i:end]); i == end || len(name) > 0 && string(name) != "retry" {
			f.keep(raw[i:next])
		}
		i = next
	}
	return f.cleaned
}
