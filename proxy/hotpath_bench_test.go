package proxy_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// discard is a client that reads everything at once.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) FlushError() error           { return nil }

// BenchmarkHotPath is the way of a frame from the backend's bytes to the
// client's: cut, read, commit, wake, fetch, render, write; and at the end of
// each run the settlement with its snapshot. One operation is one frame of
// 120 bytes.
func BenchmarkHotPath(b *testing.B) {
	for _, burst := range []int{1, 32} {
		name := map[int]string{1: "one frame per read", 32: "32 frames per read"}[burst]
		b.Run(name, func(b *testing.B) { benchmarkRun(b, burst) })
	}
}

func benchmarkRun(b *testing.B, burst int) {
	b.Helper()
	store := embeddedstore.New(embeddedstore.Options{})
	defer store.Close()
	metrics := proxy.NewMetrics()
	quiet := slog.New(slog.DiscardHandler)
	h, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{
		Engine: proxy.NewEngine(store, quiet, metrics), Host: plainHost{}, Log: quiet, Metrics: metrics, Identity: authz.Anonymous{},
	})
	if err != nil {
		b.Fatal(err)
	}
	frame := `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 31) + `"}}]}` + "\n\n"
	piece := []byte(strings.Repeat(frame, burst))
	const run = 20_000 // frames in a run
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for done := 0; done < b.N; done += run {
		n := min(run, b.N-done)
		next := func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			for range (n + burst - 1) / burst {
				if _, err := w.Write(piece); err != nil {
					return err
				}
			}
			_, err := w.Write([]byte(chatDone))
			return err
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream":true}`))
		r.Header.Set("Content-Type", "application/json")
		if err := h.ServeHTTP(&discard{header: http.Header{}}, r, next); err != nil {
			b.Fatal(err)
		}
	}
}
