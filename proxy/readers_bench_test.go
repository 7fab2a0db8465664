package proxy_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// benchSite is a gateway without a network.
func benchSite(b *testing.B) *proxy.Handler {
	b.Helper()
	store := embeddedstore.New(embeddedstore.Options{})
	b.Cleanup(store.Close)
	metrics := proxy.NewMetrics()
	quiet := slog.New(slog.DiscardHandler)
	h, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{
		Engine: proxy.NewEngine(store, quiet, metrics), Host: plainHost{}, Log: quiet, Metrics: metrics, Identity: authz.Anonymous{},
	})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// counting is a client that reads everything at once and counts it.
type counting struct {
	discard
	writes *atomic.Int64
}

// Write implements [http.ResponseWriter].
func (c *counting) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return len(p), nil
}

func benchStart() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream":true}`))
	r.Header.Set("Content-Type", jsonType)
	return r
}

// runWith starts a run whose backend writes through feed, and returns its id
// once the head was sent; ended is closed when the start was served.
func runWith(b *testing.B, h *proxy.Handler, feed func(w http.ResponseWriter) error) (run string, ended <-chan struct{}) {
	b.Helper()
	head, over := make(chan string, 1), make(chan struct{})
	w := &announcing{discard: discard{header: http.Header{}}, head: head}
	go func() {
		defer close(over)
		err := h.ServeHTTP(w, benchStart(), func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			return feed(w)
		})
		if err != nil {
			b.Error(err)
		}
	}()
	return <-head, over
}

// announcing tells when its head is written.
type announcing struct {
	discard
	head chan string
}

// Header implements [http.ResponseWriter].
func (a *announcing) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *announcing) WriteHeader(int) { a.head <- a.header.Get("X-Run-Id") }

// BenchmarkFanOut is a frame on its way to a thousand readers. One operation is
// one frame, delivered to all of them.
func BenchmarkFanOut(b *testing.B) {
	const readers = 1000
	h := benchSite(b)
	begin := make(chan struct{})
	var writes atomic.Int64
	run, ended := runWith(b, h, func(w http.ResponseWriter) error {
		<-begin
		piece := []byte(chatFrame("hello"))
		for i := range b.N {
			if _, err := w.Write(piece); err != nil {
				return err
			}
			for writes.Load() < int64(i+1)*readers/2 { // nobody runs far ahead: each frame is a wake-up
				runtime.Gosched()
			}
		}
		_, err := w.Write([]byte(chatDone))
		return err
	})
	var reading sync.WaitGroup
	attached := make(chan struct{}, readers)
	for range readers {
		reading.Go(func() {
			w := &counting{discard: discard{header: http.Header{}}, writes: &writes}
			r := httptest.NewRequest(http.MethodGet, "/_runs/"+run+"/events?control=off", nil)
			attached <- struct{}{}
			if err := h.ServeHTTP(w, r, nil); err != nil {
				b.Error(err)
			}
		})
	}
	for range readers {
		<-attached
	}
	b.ReportAllocs()
	b.ResetTimer()
	close(begin)
	<-ended
	reading.Wait()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/readers, "ns/reader")
}

// BenchmarkReplay is a whole run of ten thousand frames, read again. One
// operation is one replay.
func BenchmarkReplay(b *testing.B) {
	const frames = 10_000
	h := benchSite(b)
	piece := []byte(chatFrame("hello"))
	run, ended := runWith(b, h, func(w http.ResponseWriter) error {
		for range frames {
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
		_, err := w.Write([]byte(chatDone))
		return err
	})
	<-ended
	for _, as := range []struct{ name, query, accept string }{
		{"event stream", "", ""}, {"own format", "?control=off", ""}, {"envelopes", "", acceptNDJSON},
	} {
		b.Run(as.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(frames * len(piece)))
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "/_runs/"+run+"/events"+as.query, nil)
				if as.accept != "" {
					r.Header.Set("Accept", as.accept)
				}
				if err := h.ServeHTTP(&discard{header: http.Header{}}, r, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/frames, "ns/frame")
		})
	}
}
