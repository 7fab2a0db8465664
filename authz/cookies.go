package authz

import (
	"net/http"
	"slices"
	"strings"
)

// Cookies are read and removed here as text, not with net/http: its parser
// drops pairs with bytes that RFC 6265 forbids but browsers send, and writing
// them anew would change what the application gets.

// cookieValues returns the raw values of all cookies of one name, in the order
// of the request.
func cookieValues(h http.Header, name string) []string {
	var values []string
	for _, line := range h["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if n, v := cutPair(pair); n == name {
				values = append(values, v)
			}
		}
	}
	return values
}

// removeCookies removes the named cookies from h and leaves every other byte
// of the remaining cookies as it is. The slice in h may be shared with another
// header and is replaced, not written to.
func removeCookies(h http.Header, names ...string) {
	lines := h["Cookie"]
	kept := make([]string, 0, len(lines))
	for _, line := range lines {
		if line = withoutCookies(line, names); line != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = kept
}

// withoutCookies returns one Cookie field without the named pairs.
func withoutCookies(line string, names []string) string {
	var kept []string
	found := false
	for pair := range strings.SplitSeq(line, ";") {
		if name, _ := cutPair(pair); slices.Contains(names, name) {
			found = true
			continue
		}
		kept = append(kept, pair)
	}
	if !found {
		return line
	}
	// A pair that is now the first still has the space that parted it.
	return strings.TrimLeft(strings.Join(kept, ";"), " \t")
}

func cutPair(pair string) (name, value string) {
	name, value, _ = strings.Cut(pair, "=")
	return strings.Trim(name, " \t"), strings.Trim(value, " \t")
}
