package load

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/source"
)

func listen(t *testing.T) *source.Server {
	t.Helper()
	s, err := source.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// plan reads straight from the backend.
func plan(s *source.Server, query string) Plan {
	return Plan{
		Addr:    s.Addr(),
		Request: "POST " + source.Generate + query + " HTTP/1.1\r\nContent-Type: application/json",
		Body:    `{"stream":%d}`,
		Streams: 20, Patience: 20 * time.Second,
		Source: s.Addr(), Gateway: os.Getpid(),
	}
}

func TestPacedStreamsAreReadWholeAndMeasured(t *testing.T) {
	p := plan(listen(t), "?rate=100")
	p.Settle, p.Window = 20*time.Millisecond, 200*time.Millisecond
	got, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got.Streams != p.Streams || got.Frames == 0 || got.Total <= got.Frames {
		t.Errorf("got %d whole streams, %d frames in the window of %d, want %d streams and some before the window", got.Streams, got.Frames, got.Total, p.Streams)
	}
	if got.Elapsed < p.Window || got.Gateway <= 0 || got.RSSAfter <= 0 {
		t.Errorf("got window %v, CPU %v, memory %d, want all of them measured", got.Elapsed, got.Gateway, got.RSSAfter)
	}
	if got.P50 <= 0 || got.P50 > got.P99 || got.P99 > got.Max {
		t.Errorf("got latencies %v, %v, %v, want them in order", got.P50, got.P99, got.Max)
	}
}

func TestBurstIsReadToItsEnd(t *testing.T) {
	p := plan(listen(t), "?frames=500")
	got, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if want := 500 * p.Streams; got.Total != want {
		t.Errorf("got %d frames, want %d", got.Total, want)
	}
	if want := 499 * p.Streams; got.Frames != want { // the first came before the window
		t.Errorf("got %d frames in the window, want %d", got.Frames, want)
	}
}

func TestWholePlanCountsFromTheFirstRequest(t *testing.T) {
	p := plan(listen(t), "?frames=50")
	p.Whole = true
	got, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if want := 50 * p.Streams; got.Frames != want {
		t.Errorf("got %d frames in the window, want all %d", got.Frames, want)
	}
	if got.FirstByte <= 0 {
		t.Errorf("got first frame after %v, want it measured", got.FirstByte)
	}
}

func TestFaultyStreamsFailTheRun(t *testing.T) {
	p := plan(listen(t), "?frames=5")
	p.Numbered = true // but nobody numbers them
	_, err := Run(t.Context(), p)
	fault, ok := errors.AsType[*FaultError](err)
	if !ok || fault.Faulty != p.Streams {
		t.Fatalf("got error %v, want a fault in all %d streams", err, p.Streams)
	}
}

func TestRefusalsAreTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no room", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	p := plan(listen(t), "?frames=5")
	p.Addr = server.Listener.Addr().String()
	_, err := Run(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got error %v, want one that shows the status", err)
	}
}

func TestImpatientPlanEnds(t *testing.T) {
	block := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer server.Close()
	defer close(block)
	p := plan(listen(t), "?frames=5")
	p.Addr, p.Patience = server.Listener.Addr().String(), 50*time.Millisecond
	if _, err := Run(t.Context(), p); !errors.Is(err, ErrSlow) {
		t.Errorf("got error %v, want %v", err, ErrSlow)
	}
}

func TestQuantilesAreValuesThatWereSeen(t *testing.T) {
	values := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]time.Duration{0.5: 5, 0.9: 9, 0.99: 10, 1: 10, 0: 1} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing: got %v, want 0", got)
	}
}
