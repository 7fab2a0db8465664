package proxy_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// encoded sends an event stream in an encoding that nobody asked for.
func encoded(encoding string, body []byte) backend {
	return func(n int, w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Encoding", encoding)
		w.Header().Set("Content-Length", itoa(len(body)))
		return streams(string(body))(n, w, r)
	}
}

// encoders are the encodings that are understood.
var encoders = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"x-gzip":  func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser {
		e, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) // its options are valid
		return e
	},
}

func encode(t *testing.T, encoding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := encoders[encoding](&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestAnEncodedStreamIsDecodedBeforeItIsCut is case 05.
func TestAnEncodedStreamIsDecodedBeforeItIsCut(t *testing.T) {
	text := chatFrame("a") + chatFrame(strings.Repeat("b", 50_000)) + chatDone
	for encoding := range encoders {
		t.Run(encoding, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, encoded(strings.ToUpper(encoding), encode(t, encoding, text)), openaiChat)
				answer := s.Do(t, startChat()).Want(http.StatusOK)
				if answer.Header.Get("Content-Encoding") != "" || answer.Header.Get("Content-Length") != "" {
					t.Errorf("got %v, want fields of a plain stream", answer.Header)
				}
				events := answer.Rest()
				if testkit.CheckIDs(t, answer.Run(), 1, events) != 4 || events[2].Data != "[DONE]" {
					t.Errorf("got %d events", len(events))
				}
				if rec := s.Snapshot(t, answer.Run()); rec.State != "completed" || len(rec.Snapshot.Text) != 50_001 {
					t.Errorf("got %s with %d bytes of text", rec.State, len(rec.Snapshot.Text))
				}
			})
		})
	}
}

// TestEachFlushOfAnEncodedStreamArrivesAtOnce: decoding adds no delay.
func TestEachFlushOfAnEncodedStreamArrivesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Encoding", "gzip")
			sse(w)
			z := gzip.NewWriter(w)
			for _, f := range data(3) {
				io.WriteString(z, f) //nolint:errcheck // its writer's error comes with Flush
				if err := z.Flush(); err != nil {
					return err
				}
				if err := pause(r, time.Minute); err != nil {
					return err
				}
			}
			return z.Close()
		}, generic)
		began := time.Now()
		answer := s.Do(t, startChat())
		for i := range 3 {
			answer.Next()
			if got, want := time.Since(began), time.Duration(i)*time.Minute; got != want {
				t.Errorf("frame %d came after %v, want %v", i+1, got, want)
			}
		}
		answer.Rest()
	})
}

// TestABrokenEncodingIsABrokenBody: what was whole before the break is stored.
func TestABrokenEncodingIsABrokenBody(t *testing.T) {
	for encoding := range encoders {
		t.Run(encoding, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				whole := encode(t, encoding, strings.Join(data(3), ""))
				for name, body := range map[string][]byte{"cut": whole[:len(whole)-5], "not that encoding": []byte("data: plain\n\n")} {
					s := newSite(t, encoded(encoding, body), generic)
					rec := s.Snapshot(t, s.ran(t, startChat()))
					if rec.State != "failed" || rec.Reason() != "upstream_truncated" {
						t.Errorf("%s: got %s (%s), want failed (upstream_truncated)", name, rec.State, rec.Reason())
					}
				}
			})
		})
	}
}

// TestAnEncodedPlainBodyIsDeliveredAndReplayedAsItCame: with the field that
// says how to read it.
func TestAnEncodedPlainBodyIsDeliveredAndReplayedAsItCame(t *testing.T) {
	for _, encoding := range []string{"gzip", "br"} {
		t.Run(encoding, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				body := string(encode(t, "gzip", `{"a":1}`))
				s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
					w.Header().Set("Content-Encoding", encoding)
					return answers(http.StatusOK, jsonType, body)(n, w, r)
				})
				for _, who := range []string{"first", "retry"} {
					answer := s.Do(t, startChat().Key("k-1")).Want(http.StatusOK)
					if got := string(answer.Body()); got != body || answer.Header.Get("Content-Encoding") != encoding {
						t.Errorf("%s: got %d bytes with encoding %q", who, len(got), answer.Header.Get("Content-Encoding"))
					}
				}
			})
		})
	}
}
