package proxy_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestASlowUploadHoldsNoPlace: while a body arrives byte by byte, its subject
// may start as many runs as ever. How long it may take is the server's to say.
func TestASlowUploadHoldsNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mirror, starting("POST", "/chat"), func(c *proxy.Config) { c.Limits.ActiveRunsPerSubject = 1 })
		pr, pw := io.Pipe()
		slow := make(chan *httptest.ResponseRecorder)
		go func() { slow <- s.serve(post("/chat", pr)) }()
		for i, b := range []byte(`{"a":"byte by byte"}`) {
			pw.Write([]byte{b}) //nolint:errcheck // the handler reads it
			time.Sleep(time.Second)
			if w := s.serve(post("/chat", strings.NewReader(`{"n":`+itoa(i)+`}`))); w.Code != http.StatusOK {
				t.Fatalf("beside byte %d of another body: got %d, want a run", i, w.Code)
			}
		}
		pw.Close()
		if w := <-slow; w.Body.String() != `{"a":"byte by byte"}` {
			t.Errorf("got %d %q, want the whole body", w.Code, w.Body)
		}
	})
}

// TestAnEncodedBodyIsSentAsItCame: nothing is decompressed for a client. Where
// a guard could not read it, it is refused.
func TestAnEncodedBodyIsSentAsItCame(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(bytes.Repeat([]byte(" "), 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	ask := func(s *site) *httptest.ResponseRecorder {
		r := post("/chat", bytes.NewReader(packed.Bytes()))
		r.Header.Set("Content-Encoding", "gzip")
		return s.serve(r)
	}
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if got := r.Header.Get("Content-Encoding"); got != "gzip" {
				t.Errorf("the backend got Content-Encoding %q", got)
			}
			return mirror(n, w, r)
		}, starting("POST", "/chat"))
		if w := ask(s); w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), packed.Bytes()) {
			t.Errorf("got %d and %d bytes, want the %d that were sent", w.Code, w.Body.Len(), packed.Len())
		}
		strict := newSite(t, mirror, starting("POST", "/chat"), func(c *proxy.Config) { c.Guard = strictGuard })
		if w := ask(strict); w.Code != http.StatusBadRequest || strict.calls.Load() != 0 {
			t.Errorf("a guard that cannot read a body: got %d and %d calls, want 400 and none", w.Code, strict.calls.Load())
		}
	})
}

// TestAnEncodedBombIsBounded: a frame that grows without an end fails the run,
// and is never held as a whole.
func TestAnEncodedBombIsBounded(t *testing.T) {
	bomb := encode(t, "gzip", datum("first")+"data: "+strings.Repeat("0", 64<<20))
	inBubble(t, func(t *testing.T) {
		s := newSite(t, encoded("gzip", bomb), generic, func(c *proxy.Config) { c.Limits.Frame = 64 << 10 })
		before := allocated()
		answer := s.Do(t, startChat())
		answer.RestBroken()
		if rec := s.Snapshot(t, answer.Run()); rec.State != "failed" || rec.Reason() != "frame_too_large" || *rec.Frames.LastSeq != 1 {
			t.Errorf("got %s (%s) after frame %v, want failed (frame_too_large) after the first", rec.State, rec.Reason(), *rec.Frames.LastSeq)
		}
		if got := allocated() - before; got > 32<<20 {
			t.Errorf("a bomb of 64 MiB took %d bytes", got)
		}
	})
}

// TestManyTinyFramesAreTrimmed: what is kept of a run is bounded, however small
// the pieces, and it still ends well.
func TestManyTinyFramesAreTrimmed(t *testing.T) {
	const frames, kept = 200_000, 1000
	tiny := strings.Repeat("data: 1\n\n", 1000)
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			for range frames / 1000 {
				if err := say(w, tiny); err != nil {
					return err
				}
			}
			return nil
		}, generic, func(c *proxy.Config) { c.Limits.RunFrames = kept })
		answer := s.Do(t, startChat())
		answer.Drop() // a reader that is slower than this is sent away
		s.working.Wait()
		synctest.Wait()
		rec := s.Snapshot(t, answer.Run())
		if rec.State != "completed" || *rec.Frames.LastSeq != frames || *rec.Frames.LastSeq-*rec.Frames.FirstSeq > 2*kept {
			t.Errorf("got %s with frames %d to %d, want %d and the newest %d kept", rec.State, *rec.Frames.FirstSeq, *rec.Frames.LastSeq, frames, kept)
		}
	})
}

// allocated is what was allocated since the start, freed or not.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestABackendOfOneByteASecondIsReadToItsEnd: a frame is shown when it is
// whole, and the idle limit counts bytes, not frames.
func TestABackendOfOneByteASecondIsReadToItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		text := strings.Join(data(4), "")
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for i := range len(text) {
				if err := pause(r, time.Second); err != nil {
					return err
				}
				if err := say(w, text[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		}, generic, func(c *proxy.Config) { c.StreamIdle = 2 * time.Second })
		began := time.Now()
		answer := s.Do(t, startChat()).Want(http.StatusOK)
		answer.Take(1)
		if got, want := time.Since(began), time.Duration(len(data(1)[0]))*time.Second; got > want+time.Second {
			t.Errorf("the first frame came after %v, want %v", got, want)
		}
		if rest := answer.Rest(); len(rest) != 3 {
			t.Errorf("got %d frames after the first, want 3", len(rest))
		}
		if rec := s.Snapshot(t, answer.Run()); rec.State != "completed" || *rec.Frames.LastSeq != 4 {
			t.Errorf("got %s with %d frames, want completed with 4", rec.State, *rec.Frames.LastSeq)
		}
	})
}
