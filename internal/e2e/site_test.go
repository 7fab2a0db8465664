package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// ordinarySite is an application that has everything but streams: pages,
// logins, forms, uploads, downloads, webhooks, sockets and remote calls.
type ordinarySite struct {
	*httptest.Server

	mu   sync.Mutex // guards everything below
	seen []received
}

// received is what the application saw of a request.
type received struct {
	Method, URI string
	Header      http.Header
	Length      int64
	Chunked     bool
	Digest      string // of the body
}

// download is a file that is large enough not to fit in any buffer.
var download = bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB

func newOrdinarySite(t *testing.T) *ordinarySite {
	t.Helper()
	s := &ordinarySite{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ServeHTTP implements [http.Handler].
func (s *ordinarySite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/socket":
		s.socket(w, r)
		return
	case "/grpc.Service/Method":
		s.call(w, r)
		return
	}
	digest := sha256.New()
	n, err := io.Copy(digest, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.note(r, n, hex.EncodeToString(digest.Sum(nil)))
	s.answer(w, r)
}

func (s *ordinarySite) note(r *http.Request, length int64, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, received{r.Method, r.URL.RequestURI(), r.Header.Clone(), length, len(r.TransferEncoding) > 0, digest})
}

// last returns what the newest request looked like.
func (s *ordinarySite) last() received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}

func (s *ordinarySite) answer(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	switch r.URL.Path {
	case "/login":
		h.Set("Content-Type", "application/json")
		h.Add("Set-Cookie", "session=abc; HttpOnly")
		h.Add("Set-Cookie", "theme=dark")
		fmt.Fprint(w, `{"user":"ann"}`)
	case "/file":
		http.ServeContent(w, r, "file.bin", time.Unix(1_700_000_000, 0), bytes.NewReader(download))
	case "/gone":
		h.Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusMovedPermanently)
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
	case "/denied":
		h.Set("WWW-Authenticate", `Basic realm="x"`)
		http.Error(w, "no", http.StatusUnauthorized)
	default:
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("ETag", `"v1"`)
		h.Set("Allow", "GET, POST, OPTIONS")
		fmt.Fprintf(w, "<p>%s %s</p>", r.Method, r.URL.Path)
	}
}

// socket answers an upgrade and echoes what comes, in capitals.
func (s *ordinarySite) socket(w http.ResponseWriter, r *http.Request) {
	s.note(r, 0, "")
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
	_ = rw.Flush() // a peer that left is noticed by the next read
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprint(rw, strings.ToUpper(line))
		_ = rw.Flush()
	}
}

// call answers a remote call: it echoes each message as it comes and ends with
// trailers.
func (s *ordinarySite) call(w http.ResponseWriter, r *http.Request) {
	s.note(r, 0, "")
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()
	message := make([]byte, 5)
	for {
		if _, err := io.ReadFull(r.Body, message); err != nil {
			break
		}
		_, _ = w.Write(message)
		_ = rc.Flush()
	}
	w.Header().Set("Grpc-Status", "0")
}

// webhook is a JSON body of about n bytes that looks like no prompt.
func webhook(n int) string {
	text, err := json.Marshal(map[string]any{"event": "push", "commits": strings.Repeat("x", n)})
	if err != nil {
		panic(err) // strings encode
	}
	return string(text)
}
