package runregistry

import "testing"

func FuzzParseRunID(f *testing.F) {
	f.Add(string(NewRunID(0)))
	f.Add(string(NewRunID(63)))
	f.Add("run_")
	f.Add("run_00000000000000000000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseRunID(s)
		if err != nil {
			return
		}
		if string(id) != s {
			t.Errorf("%q: got %q, want the same spelling", s, id)
		}
		if p := id.Partition(); p >= Partitions {
			t.Errorf("%q: got partition %d", s, p)
		}
		if _, err := ParseConversationID(s); err != nil {
			t.Errorf("%q: a run id must be safe wherever a conversation id is: %v", s, err)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	run := string(NewRunID(1))
	for _, s := range []string{run + ".0", run + ".1", run + ".01", run + ".", run + ".9007199254740991", ".", "1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		if err != nil {
			return
		}
		if c.String() != s {
			t.Errorf("%q: got %q, want the same spelling", s, c)
		}
		if c.Seq > maxSeq {
			t.Errorf("%q: got number %d beyond 2^53-1", s, c.Seq)
		}
		if !LooksLikeCursor(s) {
			t.Errorf("%q: got a cursor that does not look like one", s)
		}
	})
}

func FuzzParseConversationID(f *testing.F) {
	for _, s := range []string{"conv-42", ".", "..", "a/b", "%2e%2e", "ä"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseConversationID(s)
		if err != nil {
			return
		}
		if string(c) != s || len(s) < 1 || len(s) > 128 || s == "." || s == ".." {
			t.Errorf("got %q for %q", c, s)
		}
		for _, r := range s {
			if r <= ' ' || r > '~' || r == '/' || r == '%' || r == '?' || r == '#' || r == '\\' {
				t.Errorf("%q: got %q let through", s, r)
			}
		}
	})
}
