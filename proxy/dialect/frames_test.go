package dialect_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// cut cuts a body that arrives in pieces of the given size and ends cleanly;
// 0 is one piece.
func cut(t testing.TB, kind frame.Kind, body []byte, size int) [][]byte {
	t.Helper()
	_, clean := pieces(t, kind, body, size)
	return clean
}

// pieces cuts a body into frames as they came, and as they are stored.
func pieces(t testing.TB, kind frame.Kind, body []byte, size int) (raw, clean [][]byte) {
	t.Helper()
	if size <= 0 {
		size = max(1, len(body))
	}
	sink := frame.Sink{Frame: func(f *frame.Frame) error {
		raw, clean = append(raw, bytes.Clone(f.Raw)), append(clean, bytes.Clone(f.Clean))
		return nil
	}}
	c := frame.New(kind, 0)
	for len(body) > 0 {
		n := min(size, len(body))
		if err := c.Cut(body[:n], sink); err != nil {
			t.Fatal(err)
		}
		body = body[n:]
	}
	if err := c.End(sink, true); err != nil {
		t.Fatal(err)
	}
	return raw, clean
}

// end is how a run ends as its frames tell it.
type end struct {
	Marker  bool
	Outcome dialect.Outcome
	Reason  string
}

// story is everything a reader said about a run.
type story struct {
	end
	UpstreamID, ConversationID, Model string
	Usage                             *dialect.Usage
	Tools                             []string // whose results were observed
}

func (s *story) add(f dialect.Facts) {
	s.Marker = s.Marker || f.End
	if f.Outcome != dialect.OutcomeNone {
		s.Outcome, s.Reason = f.Outcome, f.Reason
	}
	s.UpstreamID += f.UpstreamID // told once: a second one would show
	s.ConversationID += f.ConversationID
	s.Model += f.Model
	if f.Usage != nil {
		s.Usage = f.Usage
	}
	if f.Observed {
		s.Tools = append(s.Tools, f.ToolName)
	}
}

// state is the state that a run reaches when its body then ends cleanly.
func (s *story) state(d *dialect.Dialect) string {
	switch {
	case s.Outcome == dialect.OutcomeFailed:
		return "failed"
	case s.Outcome == dialect.OutcomeCancelled:
		return "cancelled"
	case s.Outcome == dialect.OutcomeCompleted, s.Marker, d.CleanEnd:
		return "completed"
	default:
		return "truncated"
	}
}

// read hands frames to a new reader.
func read(d *dialect.Dialect, kind frame.Kind, frames [][]byte) story {
	var s story
	var f frame.Frame
	r := d.NewReader()
	for _, clean := range frames {
		frame.Parse(kind, clean, &f)
		s.add(r.Read(&f))
	}
	return s
}

func readOne(d *dialect.Dialect, r dialect.Reader, clean []byte) dialect.Facts {
	var f frame.Frame
	frame.Parse(d.Kind, clean, &f)
	return r.Read(&f)
}

func typeOf(d *dialect.Dialect, clean []byte) string {
	var f frame.Frame
	frame.Parse(d.Kind, clean, &f)
	return d.Type(&f)
}

// fold hands frames to a new folder.
func fold(d *dialect.Dialect, kind frame.Kind, frames [][]byte) dialect.Snapshot {
	var f frame.Frame
	folder := d.NewFolder()
	for i, clean := range frames {
		frame.Parse(kind, clean, &f)
		folder.Fold(uint64(i+1), &f)
	}
	return folder.Snapshot()
}

func lookup(t testing.TB, name string) *dialect.Dialect {
	t.Helper()
	d, ok := dialect.Lookup(name)
	if !ok {
		t.Fatalf("no dialect %q", name)
	}
	return d
}

// sse makes an event stream of blocks: "event|data", or data alone. A bar in the
// name of an event has a backslash before it.
func sse(blocks ...string) []byte {
	var b bytes.Buffer
	for _, block := range blocks {
		if event, data, named := strings.Cut(strings.Replace(block, `\|`, "\x00", 1), "|"); named {
			b.WriteString("event: " + strings.Replace(event, "\x00", "|", 1) + "\n")
			block = data
		}
		b.WriteString("data: " + block + "\n\n")
	}
	return b.Bytes()
}

// tell reads and folds a stream given as in [sse], or as lines.
func tell(t *testing.T, name string, blocks ...string) (story, dialect.Snapshot) {
	t.Helper()
	d := lookup(t, name)
	body := sse(blocks...)
	if d.Kind == frame.Lines {
		body = []byte(strings.Join(blocks, "\n") + "\n")
	}
	frames := cut(t, d.Kind, body, 0)
	if len(frames) != len(blocks) {
		t.Fatalf("got %d frames, want %d", len(frames), len(blocks))
	}
	return read(d, d.Kind, frames), fold(d, d.Kind, frames)
}
