package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestSizesAreNumbersOrText.
func TestSizesAreNumbersOrText(t *testing.T) {
	for text, want := range map[string]Size{
		`0`: 0, `1024`: 1024, `"1KiB"`: 1024, `"64MB"`: 64_000_000, `"8 MiB"`: 8 << 20, `"1024"`: 1024, `-1`: -1,
	} {
		var got Size
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("size %s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{`"large"`, `""`, `"9EiB"`, `1.5`, `{}`, `"\ud800"`} {
		var got Size
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("size %s: got %d, want an error", text, got)
		}
	}
}

// TestDurationsReadWell.
func TestDurationsReadWell(t *testing.T) {
	for d, want := range map[time.Duration]string{
		24 * time.Hour: "24h", 15 * time.Minute: "15m", 90 * time.Minute: "1h30m", 10 * time.Second: "10s",
		time.Hour + time.Second: "1h0m1s", 0: "0s", 100 * time.Millisecond: "100ms",
	} {
		if got := words(d); got != want {
			t.Errorf("duration of %v: got %q, want %q", d, got, want)
		}
	}
}

// TestFirstOptionIsFoundInJoinedErrors, however deep.
func TestFirstOptionIsFoundInJoinedErrors(t *testing.T) {
	a, b := wrong("a", "x", "y"), clash("b", "no")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nil":     {nil, ""},
		"alone":   {a, "a"},
		"joined":  {errors.Join(nil, b, a), "b"},
		"nested":  {errors.Join(errors.Join(), errors.Join(errors.Join(a), b)), "a"},
		"wrapped": {fmt.Errorf("checking: %w", b), "b"},
		"another": {errors.Join(errors.New("disk on fire")), ""},
	} {
		got := ""
		if found := firstOption(c.err); found != nil {
			got = found.Option
		}
		if got != c.want {
			t.Errorf("first option, %s: got %q, want %q", name, got, c.want)
		}
	}
}
