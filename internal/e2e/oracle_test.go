package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// wireRules say what of a recording its client gets, and what is added.
type wireRules struct {
	lines  bool // frames are lines, not event-stream blocks
	ourIDs bool // upstream's ids give way to ours
}

// deliver is what a client of a recording must get, worked out slowly and on
// its own: the recording without comments, retry fields and an unfinished
// rest, and with our ids in place of upstream's. It returns the number of
// frames too.
func (w wireRules) deliver(run string, recording []byte) ([]byte, int) {
	if w.lines {
		return deliverLines(recording)
	}
	var out []byte
	frames := 0
	for _, block := range blocks(bytes.TrimPrefix(recording, []byte("\ufeff"))) {
		var kept [][]byte
		isFrame := false
		for _, line := range block {
			name, _, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), ":")
			switch {
			case name == "" && len(bytes.TrimRight(line, "\r\n")) > 0, name == "retry", name == "id" && w.ourIDs:
				continue
			case name == "data", name == "event":
				isFrame = true
			}
			kept = append(kept, line)
		}
		if !isFrame {
			continue
		}
		frames++
		if w.ourIDs {
			end := kept[0][len(bytes.TrimRight(kept[0], "\r\n")):]
			out = fmt.Appendf(out, "id: %s.%d%s", run, frames, end)
		}
		out = append(out, bytes.Join(kept, nil)...)
	}
	return out, frames
}

// blocks returns the lines of each block that a blank line ends, the blank one
// included.
func blocks(recording []byte) [][][]byte {
	var all [][][]byte
	var block [][]byte
	for _, line := range splitLines(recording) {
		block = append(block, line)
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			all = append(all, block)
			block = nil
		}
	}
	return all // what follows the last blank line is no frame
}

// splitLines returns the finished lines with their ends: CR, LF or CRLF.
func splitLines(b []byte) [][]byte {
	var lines [][]byte
	from := 0
	for i := range b {
		if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
			continue
		}
		if b[i] == '\r' || b[i] == '\n' {
			lines = append(lines, b[from:i+1])
			from = i + 1
		}
	}
	return lines
}

func deliverLines(recording []byte) ([]byte, int) {
	var out []byte
	frames := 0
	for _, line := range splitLines(recording) {
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			out = append(out, line...)
			frames++
		}
	}
	return out, frames
}

func TestTheOracleDeliversByHandWrittenExamples(t *testing.T) {
	ids := wireRules{ourIDs: true}
	for name, c := range map[string]struct {
		rules    wireRules
		in, want string
	}{
		"our id comes first":            {ids, "event: a\ndata: 1\nid: 7\n\n", "id: r.1\nevent: a\ndata: 1\n\n"},
		"in the block's own line end":   {ids, "data: 1\r\n\r\n", "id: r.1\r\ndata: 1\r\n\r\n"},
		"comments and retries go":       {ids, ": a\n\nretry: 1\n\n: b\ndata: 1\n: c\nretry: 2\n\n", "id: r.1\ndata: 1\n\n"},
		"an unfinished rest goes":       {ids, "data: 1\n\ndata: 2\n", "id: r.1\ndata: 1\n\n"},
		"a block without data goes":     {ids, "id: 1\nx: y\n\nevent: ping\n\n", "id: r.1\nevent: ping\n\n"},
		"unknown fields stay":           {ids, "message:\ndata:1\n\n", "id: r.1\nmessage:\ndata:1\n\n"},
		"nothing is added without ids":  {wireRules{}, "id: 7\nretry: 1\ndata: \n\n: c\ndata: 1\n\n", "id: 7\ndata: \n\ndata: 1\n\n"},
		"lines stay as they are":        {wireRules{lines: true}, "{}\n\n[1]\r\n{\"cut", "{}\n[1]\r\n"},
		"a byte order mark goes":        {ids, "\ufeffdata: 1\n\n", "id: r.1\ndata: 1\n\n"},
		"every kind of line end counts": {ids, "data: 1\r\rdata: 2\n\n", "id: r.1\rdata: 1\r\rid: r.2\ndata: 2\n\n"},
	} {
		if got, _ := c.rules.deliver("r", []byte(c.in)); !slices.Equal(got, []byte(c.want)) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
