package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
)

// optionError is a mistake in one option. The Caddyfile parser adds the file
// and the line where the option stands.
type optionError struct {
	// Option is its name as it stands in a Caddyfile; in a block "block.option".
	Option  string
	Problem string

	scope string // of its place, if there are blocks of the same name
}

// Error implements error.
func (e *optionError) Error() string { return e.Option + ": " + e.Problem }

// wrong says what was found in an option and what it may be.
func wrong(option, found, allowed string) error {
	return &optionError{Option: option, Problem: fmt.Sprintf("found %q, allowed: %s", found, allowed)}
}

// clash says that an option does not go with the others.
func clash(option, format string, args ...any) error {
	return &optionError{Option: option, Problem: fmt.Sprintf(format, args...)}
}

// within says in which block of the same name the mistakes are.
func within(scope string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			_ = within(scope, e)
		}
	} else if found, ok := errors.AsType[*optionError](err); ok {
		found.scope = scope
	}
	return err
}

// firstOption returns the first mistake of a joined error, so that the parser
// can point at one line.
func firstOption(err error) *optionError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if first := firstOption(e); first != nil {
				return first
			}
		}
		return nil
	}
	found, _ := errors.AsType[*optionError](err)
	return found
}

// Size is a number of bytes. In JSON it is a number, or a string such as
// "8MiB" or "64MB".
type Size int64

// UnmarshalJSON implements json.Unmarshaler.
func (s *Size) UnmarshalJSON(b []byte) error {
	var text string
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return fmt.Errorf("reading size: %w", err)
		}
		parsed, err := parseSize(text)
		*s = parsed
		return err
	}
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("reading size: %w", err)
	}
	*s = Size(n)
	return nil
}

// String returns the size as people write it.
func (s Size) String() string {
	if s < 0 {
		return strconv.FormatInt(int64(s), 10)
	}
	return humanize.IBytes(uint64(s))
}

func parseSize(text string) (Size, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("found %q, allowed: a size such as 8MiB", text)
	}
	return Size(n), nil
}

// words writes a duration as people do: 24h, not 24h0m0s.
func words(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// durationOr returns the configured duration, or the default for one that is
// not set.
func durationOr(d caddy.Duration, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}
