package source

import (
	"bytes"
	"testing"
)

func TestFramesHaveOneSizeAndCarryNumberAndTime(t *testing.T) {
	for _, c := range []struct {
		seq uint64
		at  int64
	}{
		{1, 1_780_000_000_000_000_000},
		{9_999_999, 1_999_999_999_999_999_999},
		{400_000, 1_000_000_000_000_000_001},
	} {
		block := AppendFrame(nil, c.seq, c.at)
		if len(block) != FrameSize {
			t.Errorf("frame %d: got %d bytes, want %d: %q", c.seq, len(block), FrameSize, block)
		}
		if i := bytes.Index(block, []byte("\n\n")); i != FrameSize-2 {
			t.Errorf("frame %d: got its blank line at %d, want it at the end", c.seq, i)
		}
		seq, at, ok := ParseFrame(block)
		if !ok || seq != c.seq || at != c.at {
			t.Errorf("got frame %d of %d (%t), want %d of %d", seq, at, ok, c.seq, c.at)
		}
	}
}

func TestFramesAreReadWhateverFieldsWereAdded(t *testing.T) {
	frame := AppendFrame(nil, 7, 1_780_000_000_000_000_000)
	for _, block := range []string{
		"id: run_x.7\n" + string(frame),
		": keepalive\nid: run_x.7\n" + string(frame),
		string(frame[:FrameSize-1]) + "id: run_x.7\n\n",
	} {
		if seq, _, ok := ParseFrame([]byte(block)); !ok || seq != 7 {
			t.Errorf("reading %q: got %d (%t), want 7", block, seq, ok)
		}
	}
}

func TestOtherBlocksAreNotFrames(t *testing.T) {
	whole := AppendFrame(nil, 7, 1_780_000_000_000_000_000)
	damaged := bytes.Replace(whole, []byte("1780"), []byte("17x0"), 1)
	for _, block := range [][]byte{nil, []byte(EndMarker), whole[:len(opening)+5], damaged} {
		if seq, _, ok := ParseFrame(block); ok {
			t.Errorf("reading %q: got frame %d, want none", block, seq)
		}
	}
}
