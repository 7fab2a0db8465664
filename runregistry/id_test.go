package runregistry

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"
)

func TestRunIDsParseAndNameTheirPartition(t *testing.T) {
	for p := range Partition(Partitions) {
		id := NewRunID(p)
		parsed, err := ParseRunID(string(id))
		if err != nil || parsed != id {
			t.Errorf("%s: got %q and error %v", id, parsed, err)
		}
		if got := id.Partition(); got != p {
			t.Errorf("%s: got partition %d, want %d", id, got, p)
		}
	}
}

// The random part is the plain base-32 number of its 128 bits.
func TestRunIDsCarryAllTheirBits(t *testing.T) {
	for _, raw := range [][16]byte{
		{},
		{15: 1},
		{0: 0x80},
		{0: 1, 1: 2, 2: 3, 7: 0xaa, 15: 0x1f},
		[16]byte(bytes.Repeat([]byte{0xff}, 16)),
	} {
		var got [26]byte
		encode128(got[:], raw)
		text := new(big.Int).SetBytes(raw[:]).Text(32)
		want := strings.Map(func(r rune) rune { // from 0-9 a-v to Crockford's
			return rune(alphabet[strings.IndexRune("0123456789abcdefghijklmnopqrstuv", r)])
		}, strings.Repeat("0", 26-len(text))+text)
		if string(got[:]) != want {
			t.Errorf("%x: got %s, want %s", raw, got, want)
		}
	}
}

func TestRunIDsSayNothingAboutTheirOrder(t *testing.T) {
	const n = 2000
	seen := make(map[RunID]bool)
	ascending := 0
	for last := NewRunID(0); len(seen) < n; {
		id := NewRunID(0)
		if id > last {
			ascending++
		}
		if seen[id] {
			t.Fatalf("got %s twice", id)
		}
		seen[id], last = true, id
	}
	if ascending < n/4 || ascending > 3*n/4 { // 22 standard deviations away
		t.Errorf("got %d of %d ids above the one before, want about half", ascending, n)
	}
}

func TestOnlyCanonicalRunIDsParse(t *testing.T) {
	const good = "run_1z7bcdefghjkmnpqrstvwxyz0123"
	if _, err := ParseRunID(good); err != nil {
		t.Fatalf("%s: got error %v", good, err)
	}
	for _, bad := range []string{
		"", "run_", good[:len(good)-1], good + "0", good + "\n", " " + good,
		"RUN_" + good[4:], "ru__" + good[4:], strings.ToUpper(good),
		good[:8] + "i" + good[9:], good[:8] + "l" + good[9:], good[:8] + "o" + good[9:], good[:8] + "u" + good[9:],
		good[:8] + "-" + good[9:], good[:8] + "\x00" + good[9:], good[:8] + "é" + good[10:],
		"run_20" + good[6:],        // partition 64
		good[:6] + "8" + good[7:],  // 2^128
		good[:4] + "z0" + good[6:], // partition far out of range
		strings.Replace(good, "_", ".", 1),
	} {
		if id, err := ParseRunID(bad); !errors.Is(err, ErrMalformedRunID) || id != "" {
			t.Errorf("%q: got %q and error %v, want %v", bad, id, err, ErrMalformedRunID)
		}
	}
}

func TestPartitionsAreStableAndAllUsed(t *testing.T) {
	used := make(map[Partition]bool)
	for i := range 5000 {
		key := strings.Repeat("k", i%50) + string(rune(i))
		p := PartitionOf(key)
		if p >= Partitions || p != PartitionOf(key) {
			t.Fatalf("%q: got partition %d", key, p)
		}
		used[p] = true
	}
	if len(used) != Partitions {
		t.Errorf("got %d partitions used, want %d", len(used), Partitions)
	}
	if got := PartitionOf("alice"); got != 39 { // data is found by it: it must never change
		t.Errorf("got partition %d of alice, want 39", got)
	}
}

func TestCursorsRoundTrip(t *testing.T) {
	run := NewRunID(5)
	for _, seq := range []Seq{0, 1, 10, 184, 1<<53 - 1} {
		c := Cursor{Run: run, Seq: seq}
		parsed, err := ParseCursor(c.String())
		if err != nil || parsed != c {
			t.Errorf("%s: got %v and error %v", c, parsed, err)
		}
	}
	if got, want := (Cursor{Run: run, Seq: 7}).AppendTo([]byte("id: ")), "id: "+string(run)+".7"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Fetch, "CORS-unsafe request-header byte": one such byte in Last-Event-ID
// would cost every cross-origin reconnect a preflight.
func TestCursorsNeedNoPreflight(t *testing.T) {
	c := Cursor{Run: NewRunID(63), Seq: 1<<53 - 1}.String()
	for i := range len(c) {
		if b := c[i]; b <= ' ' || b >= 0x7f || strings.IndexByte(`"():<>?@[\]{}`, b) >= 0 {
			t.Errorf("%s: byte %q costs a preflight", c, b)
		}
	}
	if len(c) > 128 {
		t.Errorf("got %d bytes, want at most 128", len(c))
	}
}

func TestOnlyCanonicalCursorsParse(t *testing.T) {
	run := string(NewRunID(5))
	for _, bad := range []string{
		"", run, run + ".", "." + run, run + ".-1", run + ".+1", run + ".01", run + ".00", run + ".1.", run + ".1.2",
		run + ". 1", run + ".1 ", run + ".1_0", run + ".0x1", run + ".1e3", run + ".٣",
		run + ".9007199254740992", run + ".18446744073709551616", "run_x.1", run[1:] + ".1", run + ":1",
	} {
		if c, err := ParseCursor(bad); !errors.Is(err, ErrMalformedCursor) || c != (Cursor{}) {
			t.Errorf("%q: got %v and error %v, want %v", bad, c, err, ErrMalformedCursor)
		}
	}
}

func TestForeignEventIDsDoNotLookLikeCursors(t *testing.T) {
	run := string(NewRunID(5))
	for id, want := range map[string]bool{
		run + ".5": true, run + ".x": true, run + ".": true,
		"": false, "5": false, run: false, "evt_1.5": false, "1701432000.5": false, "run_abc.5": false, "." + run: false,
	} {
		if got := LooksLikeCursor(id); got != want {
			t.Errorf("%q: got %v, want %v", id, got, want)
		}
	}
}

func TestConversationIDsAreSafeInAPath(t *testing.T) {
	for _, good := range []string{"a", "conv-42", "...", ".a", "A.Z_~:@-09", strings.Repeat("x", 128)} {
		if c, err := ParseConversationID(good); err != nil || string(c) != good {
			t.Errorf("%q: got %q and error %v", good, c, err)
		}
	}
	for _, bad := range []string{"", ".", "..", strings.Repeat("x", 129), "a/b", "a b", "a%2f", "é", "a\n", "a\x00", "a?b", "a#b", "a,b", "a+b"} {
		if c, err := ParseConversationID(bad); !errors.Is(err, ErrMalformedConversation) || c != "" {
			t.Errorf("%q: got %q and error %v, want %v", bad, c, err, ErrMalformedConversation)
		}
	}
}

func TestGeneratedConversationsAreDistinctAndValid(t *testing.T) {
	seen := make(map[ConversationID]bool)
	for range 1000 {
		c := NewConversationID()
		if _, err := ParseConversationID(string(c)); err != nil || seen[c] || !strings.HasPrefix(string(c), "conv_") {
			t.Fatalf("got %q, seen before %v, error %v", c, seen[c], err)
		}
		seen[c] = true
	}
}
