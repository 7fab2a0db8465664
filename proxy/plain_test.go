package proxy_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestAPlainAnswerIsDeliveredAsItCame, with the fields of upstream's.
func TestAPlainAnswerIsDeliveredAsItCame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Cache-Control", "max-age=60")
			return answers(http.StatusCreated, jsonType, `{"a":1}`)(n, w, r)
		})
		answer := s.Do(t, startChat()).Want(http.StatusCreated)
		if got := string(answer.Body()); got != `{"a":1}` || answer.Header.Get("Content-Length") != "7" {
			t.Errorf("got %q with length %s", got, answer.Header.Get("Content-Length"))
		}
		if answer.Header.Get("Etag") != `"v1"` || answer.Header.Get("Cache-Control") != "max-age=60" || answer.Header.Get("X-Accel-Buffering") != "" || answer.Run() == "" {
			t.Errorf("got %v", answer.Header)
		}
	})
}

// TestAPlainAnswerWithoutAKeyIsGoneOnceItIsDelivered.
func TestAPlainAnswerWithoutAKeyIsGoneOnceItIsDelivered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, answers(http.StatusOK, jsonType, `{}`))
		run := s.ran(t, startChat())
		s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Problem(http.StatusNotFound, "run_not_found")
		if used := s.store.Used(); used != 0 {
			t.Errorf("the store still holds %d bytes", used)
		}
		s.ran(t, startChat())
		if got := s.calls.Load(); got != 2 {
			t.Errorf("got %d calls, want 2: nothing was kept", got)
		}
	})
}

// TestAPlainAnswerUnderAKeyIsKeptUpToAMebibyte and given again with its status.
func TestAPlainAnswerUnderAKeyIsKeptUpToAMebibyte(t *testing.T) {
	for _, c := range []struct {
		size, status int
		kept         bool
	}{{10, 200, true}, {1 << 20, 200, true}, {1<<20 + 1, 200, false}, {3 << 20, 200, false}, {100, 500, true}} {
		inBubble(t, func(t *testing.T) {
			body := strings.Repeat("x", c.size)
			s := newSite(t, answers(c.status, "text/plain", body))
			if got := string(s.Do(t, startChat().Key("k-1")).Want(c.status).Body()); got != body {
				t.Errorf("got %d bytes, want %d", len(got), c.size)
			}
			synctest.Wait()
			again := s.Do(t, startChat().Key("k-1"))
			switch {
			case c.kept:
				if got := string(again.Want(c.status).Body()); got != body || again.Header.Get("Idempotent-Replayed") != "true" || again.Header.Get("Content-Type") != "text/plain" {
					t.Errorf("%d bytes: the retry got %d of type %q", c.size, len(got), again.Header.Get("Content-Type"))
				}
			default:
				again.Problem(http.StatusConflict, "response_not_retained")
			}
			if got := s.calls.Load(); got != 1 {
				t.Errorf("%d bytes: got %d calls, want 1", c.size, got)
			}
		})
	}
}

// TestAPlainAnswerWithoutALengthIsAFrameStream that shows no ids: each piece is
// sent as it comes and can be read again.
func TestAPlainAnswerWithoutALengthIsReadInPieces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "text/plain")
			for _, p := range []string{"one ", "two ", "three"} {
				if err := say(w, p); err != nil {
					return err
				}
				if err := pause(r, time.Minute); err != nil {
					return err
				}
			}
			return nil
		})
		began := time.Now()
		answer := s.Do(t, startChat().Key("k-1"))
		buf := make([]byte, 100)
		for i, want := range []string{"one ", "two ", "three"} {
			n, err := answer.Read(buf)
			if got := time.Since(began); err != nil || string(buf[:n]) != want || got != time.Duration(i)*time.Minute {
				t.Errorf("got %q (%v) after %v, want %q", buf[:n], err, got, want)
			}
		}
		answer.Body()
		if rec := s.Snapshot(t, answer.Run()); rec.State != "completed" || rec.Frames.Format != "opaque" || *rec.Frames.LastSeq != 3 {
			t.Errorf("got %s, %s, %d frames", rec.State, rec.Frames.Format, *rec.Frames.LastSeq)
		}
		if got := string(s.Do(t, testkit.Resume(answer.Run(), testkit.Cursor(answer.Run(), 1))).Body()); got != "two three" {
			t.Errorf("after the first piece got %q", got)
		}
		if got := string(s.Do(t, startChat().Key("k-1")).Body()); got != "one two three" {
			t.Errorf("the retry got %q", got)
		}
	})
}

// TestABrokenPlainAnswerDoesNotLookWhole.
func TestABrokenPlainAnswerDoesNotLookWhole(t *testing.T) {
	for _, length := range []string{"100", ""} {
		inBubble(t, func(t *testing.T) {
			s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/plain")
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				say(w, "half") //nolint:errcheck // the test reads what arrived
				hangUp()
				return nil
			})
			answer := s.Do(t, startChat().Key("k-1")).Want(http.StatusOK)
			if raw, err := answer.Bytes(); err == nil || string(raw) != "half" {
				t.Errorf("got %q and %v, want half a body and a broken transport", raw, err)
			}
			if rec := s.Snapshot(t, answer.Run()); rec.State != "failed" || rec.Reason() != "upstream_truncated" {
				t.Errorf("got %s (%s)", rec.State, rec.Reason())
			}
		})
	}
}

// TestALargePlainAnswerArrivesWholeAtASlowClient while the store holds a part
// of it: a stream of frames is never slowed by a reader, a download is.
func TestALargePlainAnswerArrivesWholeAtASlowClient(t *testing.T) {
	for name, kept := range map[string]int64{"kept 8 MiB": 8 << 20, "kept 1 MiB": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const size = 20 << 20
				body := make([]byte, size)
				random := rand.NewChaCha8([32]byte{1})
				random.Read(body) //nolint:errcheck // always nil
				s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Content-Type", "application/octet-stream")
					w.Header().Set("Content-Length", itoa(size))
					for at := 0; at < size; at += 32 << 10 {
						if _, err := w.Write(body[at : at+32<<10]); err != nil {
							return err
						}
					}
					return nil
				}, func(c *proxy.Config) { c.Limits.RunBytes = kept })
				answer := s.Do(t, startChat().Key("k-1"))
				sum, most := sha256.New(), int64(0)
				buf := make([]byte, 256<<10)
				for read := 0; read < size; {
					n, err := answer.Read(buf)
					if err != nil && !errors.Is(err, io.EOF) {
						t.Fatalf("after %d bytes: %v", read, err)
					}
					read += n
					sum.Write(buf[:n])
					most = max(most, s.store.Used())
					time.Sleep(10 * time.Millisecond)
				}
				if want := sha256.Sum256(body); [32]byte(sum.Sum(nil)) != want {
					t.Error("another body arrived")
				}
				if most > kept+kept/2 {
					t.Errorf("the store held up to %d bytes, want about %d", most, kept)
				}
			})
		})
	}
}

// TestADownloadGoesOnWhenItsClientLeft: nothing holds its run back then.
func TestADownloadGoesOnWhenItsClientLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var wrote atomic.Int64
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/octet-stream")
			for range 20 << 5 {
				n, err := w.Write(make([]byte, 32<<10))
				if wrote.Add(int64(n)); err != nil {
					return err
				}
			}
			return nil
		})
		answer := s.Do(t, startChat().Key("k-1"))
		synctest.Wait()
		if ahead := wrote.Load(); ahead > 5<<20 {
			t.Errorf("upstream ran %d bytes ahead of a client that reads nothing", ahead)
		}
		answer.Drop()
		synctest.Wait()
		if got := wrote.Load(); got != 20<<20 {
			t.Errorf("got %d bytes from upstream, want all", got)
		}
		if rec := s.Snapshot(t, answer.Run()); rec.State != "completed" {
			t.Errorf("got %s, want completed", rec.State)
		}
	})
}

// TestAStopReachesADownloadThatIsHeldBack.
func TestAStopReachesADownloadThatIsHeldBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/octet-stream")
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return err
				}
			}
		})
		answer := s.Do(t, startChat())
		synctest.Wait()
		if rec := s.Stop(t, answer.Run()); rec.State != "cancelled" {
			t.Errorf("got %s", rec.State)
		}
	})
}

// TestAnswersWithoutABody keep their status.
func TestAnswersWithoutABody(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified, http.StatusOK} {
		for _, method := range []string{http.MethodPost, http.MethodHead} {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
					if status == http.StatusOK {
						w.Header().Set("Content-Length", "7")
					}
					w.WriteHeader(status)
					if status == http.StatusOK && method == http.MethodPost {
						return say(w, "1234567")
					}
					return nil
				}, starting(method, "/chat"))
				ask := testkit.Ask{Method: method, Path: "/chat"}.Key("k-1")
				for range 2 {
					answer := s.Do(t, ask).Want(status)
					if body := answer.Body(); answer.Run() == "" || (len(body) > 0) != (status == http.StatusOK && method == http.MethodPost) {
						t.Errorf("%s %d: got %q of run %q", method, status, body, answer.Run())
					}
				}
				synctest.Wait()
				if rec := s.Snapshot(t, s.newest(t)); rec.State != "completed" || s.calls.Load() != 1 {
					t.Errorf("%s %d: got %s and %d calls", method, status, rec.State, s.calls.Load())
				}
			})
		}
	}
}

// TestInformationalAnswersStayWithUpstream.
func TestInformationalAnswersStayWithUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			return answers(http.StatusAccepted, jsonType, "{}")(n, w, r)
		})
		if got := string(s.Do(t, startChat()).Want(http.StatusAccepted).Body()); got != "{}" {
			t.Errorf("got %q", got)
		}
	})
}
