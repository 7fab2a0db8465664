package modeltest

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// call is one generation as the backend sees it.
type call struct {
	by     *instance
	orders chan kind
	sent   atomic.Int64 // frames that were handed to the gateway
	clean  atomic.Bool  // it ended properly
	broken atomic.Bool  // it was told to break
}

// manyOrders is more than a plan gives one call.
const manyOrders = 1 << 12

// frameText is the content of a frame. It names its run, so that a frame of
// another one is seen.
func frameText(id runregistry.RunID, n runregistry.Seq) string { return fmt.Sprintf("%s/%d", id, n) }

// serve is the backend: it does what it is ordered until the gateway hangs up.
func (w *world) serve(by *instance, rw http.ResponseWriter, r *http.Request) error {
	text, _ := r.Context().Value(runKey{}).(string)
	id := runregistry.RunID(text)
	c := w.dispatched(by, id, r.Header.Get(headerKey))
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.WriteHeader(http.StatusOK)
	for {
		var do kind
		select {
		case do = <-c.orders:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		switch do {
		case doFrames:
			n := runregistry.Seq(c.sent.Add(1))
			if _, err := io.WriteString(rw, "data: "+frameText(id, n)+"\n\n"); err != nil {
				panic(http.ErrAbortHandler)
			}
		case doEnd:
			c.clean.Store(true)
			return nil
		default:
			panic(http.ErrAbortHandler)
		}
	}
}
