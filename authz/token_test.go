package authz

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"
)

var testKey = macKey("0123456789abcdef-secret-of-the-tests")

// Browsers keep cookies across releases of this package, so their form and
// their signature are part of its interface.
func TestTokenKeepsItsForm(t *testing.T) {
	const value = "AQBpa4TwAAECAwQFBgcICQoLDA0OD0lX5r9grmi7FfX7Z84LnitX5fRdGx9uTmkfoQPsWQ7u"
	want := token{issued: time.Date(2026, 1, 17, 12, 47, 44, 0, time.UTC), id: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	got := want.sign(testKey, secureCookie)
	if got != value {
		t.Errorf("got %q, want %q", got, value)
	}
	read, ok := readToken(testKey, secureCookie, got)
	if !ok || !read.issued.Equal(want.issued) || read.id != want.id {
		t.Errorf("got %+v and %t, want %+v", read, ok, want)
	}
}

func TestTokenOfAnotherVersionIsNone(t *testing.T) {
	for version := range 256 {
		b := append([]byte{byte(version)}, make([]byte, payload-1)...)
		b = append(b, testKey.mac("cookie", secureCookie, string(b))...)
		_, ok := readToken(testKey, secureCookie, base64.RawURLEncoding.EncodeToString(b))
		if want := version == tokenVersion; ok != want {
			t.Errorf("got version %d read: %t, want %t", version, ok, want)
		}
	}
}

func TestMACTellsItsPartsApart(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"a"},
		{"b"},
		{""},
		{"", ""},
		{"a", ""},
		{"a", "b"},
		{"ab"},
		{"a", "b", ""},
		{"", "ab"},
		{"a", "b", "c"},
		{"a", "bc"},
		{"ab", "c"},
		{"a\x00\x00\x00\x00\x00\x00\x00\x01b"},
	} {
		mac := string(testKey.mac(parts[0], parts[1:]...))
		if other, ok := seen[mac]; ok {
			t.Errorf("got one MAC for %q and %q, want two", parts, other)
		}
		seen[mac] = parts
	}
}

// A request may find no key, and then that another has just loaded it.
func TestLoadThatHasJustEndedIsNotRepeated(t *testing.T) {
	loaded := testKey
	k := keyring{load: func() ([]byte, error) {
		t.Error("got a second load, want none")
		return nil, nil
	}}
	k.loaded.Store(&loaded)
	call, first := k.join()
	<-call.done
	if first || call.err != nil || !bytes.Equal(call.key, testKey) {
		t.Errorf("got first %t, error %v, want the loaded key", first, call.err)
	}
}
