package dialect_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// stored is a stream as a run keeps it: the frames as they came, and as they
// were stored.
type stored struct {
	d          *dialect.Dialect
	raw, clean [][]byte
}

// everyStream are the recordings, and the streams of the tables of tests: some
// dialects have no recordings.
func everyStream(t *testing.T) map[string]stored {
	t.Helper()
	all := map[string]stored{}
	for name, d := range streams(t) {
		all[name] = store(t, d, testkit.Recording(t, name))
	}
	inline := func(name, dialectName string, blocks []string) {
		d := lookup(t, dialectName)
		body := sse(splitData(blocks)...)
		if d.Kind == frame.Lines {
			body = []byte(strings.Join(blocks, "\n") + "\n")
		}
		all[dialectName+": "+name] = store(t, d, body)
	}
	for _, tt := range allTales() {
		inline(tt.name, tt.dialect, tt.blocks)
	}
	for _, tt := range cleanEnds {
		inline(tt.name, tt.dialect, tt.blocks)
	}
	for _, tt := range texts {
		inline(tt.name, tt.dialect, tt.blocks)
	}
	for _, tt := range results {
		inline(tt.name, tt.dialect, tt.blocks)
	}
	inline("earlier runs", "ag-ui", history)
	return all
}

func store(t *testing.T, d *dialect.Dialect, body []byte) (s stored) {
	t.Helper()
	size := 0
	if d.Kind == frame.Opaque {
		size = 61 // so that pieces end anywhere in a message
	}
	s.d = d
	s.raw, s.clean = pieces(t, d.Kind, body, size)
	if d.Kind == frame.SSE && !d.Wire.IDs { // its own ids stay
		for i := range s.raw {
			s.clean[i] = frame.AppendOwn(nil, s.raw[i])
		}
	}
	return s
}

// TestEverySnapshotIsAReplayOfItsFrames: after every frame of every stream, a
// folder that was asked after each frame has come to the very state of one that
// read the stored frames and was never asked (promise 4). So a run may change
// its process anywhere: whoever goes on with it replays what is stored.
func TestEverySnapshotIsAReplayOfItsFrames(t *testing.T) {
	t.Parallel()
	for name, s := range everyStream(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, clean := parsed(s.d.Kind, s.raw), parsed(s.d.Kind, s.clean)
			asked, silent := s.d.NewFolder(), s.d.NewFolder()
			for n := range clean {
				asked.Fold(uint64(n+1), &raw[n])
				silent.Fold(uint64(n+1), &clean[n])
				got := asked.Snapshot()
				if !reflect.DeepEqual(asked, silent) {
					t.Fatalf("after frame %d: got state %+v, want %+v", n+1, asked, silent)
				}
				if len(clean) > shortStream {
					continue
				}
				if want := foldParsed(s.d, clean[:n+1]); !reflect.DeepEqual(got, want) {
					t.Fatalf("after frame %d: got %s, want %s", n+1, encode(t, got), encode(t, want))
				}
			}
		})
	}
}

// shortStream is up to how many frames a stream is replayed from its beginning
// for each of them; the time grows with the square.
const shortStream = 128

// TestAReaderThatRecallsKnowsWhatTheFirstKnew: a run whose owner dies is gone on
// with by a process that reads the stored frames, and then what follows as it
// arrives. Whenever that happens, it knows what the owner knew.
func TestAReaderThatRecallsKnowsWhatTheFirstKnew(t *testing.T) {
	t.Parallel()
	for name, s := range everyStream(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, clean := parsed(s.d.Kind, s.raw), parsed(s.d.Kind, s.clean)
			first, second := s.d.NewReader(), s.d.NewReader()
			for n := range clean {
				want, got := first.Read(&raw[n]), second.Read(&clean[n])
				if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(second, first) {
					t.Fatalf("after frame %d: got %+v of %+v, want %+v of %+v", n+1, got, second, want, first)
				}
			}
		})
	}
}

// parsed are frames as a reader gets them.
func parsed(kind frame.Kind, blocks [][]byte) []frame.Frame {
	frames := make([]frame.Frame, len(blocks))
	for i := range blocks {
		frame.Parse(kind, blocks[i], &frames[i])
	}
	return frames
}

func foldParsed(d *dialect.Dialect, frames []frame.Frame) dialect.Snapshot {
	folder := d.NewFolder()
	for i := range frames {
		folder.Fold(uint64(i+1), &frames[i])
	}
	return folder.Snapshot()
}
