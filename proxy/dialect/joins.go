package dialect

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Rejoin is a client's own call to the backend for the rest of a run's stream,
// as far as its head tells.
type Rejoin struct {
	// UpstreamID is upstream's id of the run. It is empty where only the position
	// says which run is meant: the position then names a frame of one run alone.
	UpstreamID string
	// Position is upstream's own name of the frame after which to go on. Empty
	// means the beginning; one of the two is not empty.
	Position string
	// Dialect is whose call it is.
	Dialect *Dialect

	call *ControlCall
}

// RejoinOf reads a request as a call for the rest of a stream. Those in which
// upstream's position stands in the body are read by [RejoinIn].
func RejoinOf(r *http.Request) (Rejoin, bool) {
	if r.Method != http.MethodGet {
		return Rejoin{}, false
	}
	if id := r.Header.Get("Last-Event-Id"); id != "" && isOfMCP(r.Header) {
		return Rejoin{Position: kept(id), Dialect: mcp}, kept(id) != ""
	}
	for _, d := range all {
		for i := range d.calls {
			if call := d.calls[i].Join; call != nil && call.Method == r.Method && !call.ByEventID {
				if j, ok := call.rejoin(r.URL); ok {
					j.Dialect = d
					return j, true
				}
			}
		}
	}
	return Rejoin{}, false
}

// RejoinIn reads the head of a POST as a call for the rest of a stream whose
// body has upstream's position: see [Rejoin.Read]. Other requests may have such
// an address, too: it is one if it names a run.
func RejoinIn(r *http.Request) (Rejoin, bool) {
	if r.Method != http.MethodPost {
		return Rejoin{}, false
	}
	for _, d := range all {
		for i := range d.calls {
			call := d.calls[i].Join
			if call == nil || call.Method != r.Method || !strings.Contains(call.Body, "{position}") {
				continue
			}
			if j, ok := call.rejoin(r.URL); ok {
				j.Dialect, j.call = d, call
				return j, true
			}
		}
	}
	return Rejoin{}, false
}

// Read reads the body of a call. Without a position, or with 0, it asks for the
// stream from its beginning.
func (j Rejoin) Read(body []byte) Rejoin {
	vars := map[string][]string{}
	if fill(j.call.form, gjson.ParseBytes(body), vars) && vars["position"][0] != "0" {
		j.Position = vars["position"][0]
	}
	return j
}

// rejoin matches an address with the template of a call. Parameters that the
// template does not have are ignored.
func (c *ControlCall) rejoin(u *url.URL) (j Rejoin, ok bool) {
	pattern, addressed := c.pattern()
	vars := map[string]string{}
	if _, fits := capture(pattern, u.EscapedPath(), vars); !addressed || !fits || vars["upstream_id"] == "" {
		return j, false
	}
	_, query, _ := strings.Cut(c.Path, "?")
	got := u.Query()
	for parameter := range strings.SplitSeq(query, "&") {
		name, want, asks := strings.Cut(parameter, "=")
		switch {
		case !asks:
		case want == "{position}":
			j.Position = kept(got.Get(name))
		case got.Get(name) != want:
			return j, false
		}
	}
	j.UpstreamID = vars["upstream_id"]
	return j, true
}

// Joins reports whether clients of a dialect go on at the address that an answer
// gives in Location.
func Joins(dialectName string) bool { return dialectName == langGraph.Name }

// KeepOrigin makes absolute addresses of a LangGraph run relative. Its clients
// go on at these addresses, and refuse those of another origin than the one that
// they called: which the backend does not know.
func KeepOrigin(h http.Header) {
	for _, name := range []string{"Location", "Content-Location"} {
		at, err := url.Parse(h.Get(name))
		if err != nil || at.Host == "" {
			continue
		}
		if _, run := runAddress(strings.TrimSuffix(at.EscapedPath(), "/stream")); run != "" {
			h.Set(name, at.RequestURI())
		}
	}
}
