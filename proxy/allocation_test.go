package proxy_test

import (
	"net/http"
	"runtime"
	"testing"
	"time"
)

// TestAFrameCostsNoAllocation on its way from the backend's bytes to the
// client's: at a thousand streams garbage would be the whole cost.
func TestAFrameCostsNoAllocation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const frames = 20_000
		var allocations uint64
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			piece := []byte(chatFrame("hello"))
			var before, now runtime.MemStats
			for i := range frames + 1000 {
				if i == 1000 { // buffers have grown
					runtime.ReadMemStats(&before)
				}
				if _, err := w.Write(piece); err != nil {
					return err
				}
			}
			runtime.ReadMemStats(&now)
			allocations = now.Mallocs - before.Mallocs
			return say(w, chatDone)
		}, openaiChat)
		r := benchStart()
		r.Host = "pipe.test"
		r.Header.Set("X-User", "user-a")
		s.handler.ServeHTTP(&discard{header: http.Header{}}, r)
		time.Sleep(time.Second)
		if perFrame := float64(allocations) / frames; perFrame > 0.2 {
			t.Errorf("got %.2f allocations per frame, want next to none", perFrame)
		}
	})
}
