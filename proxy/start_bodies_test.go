package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

func bodyLimit(n int64) configure { return func(c *proxy.Config) { c.Limits.RequestBody = n } }

// upload is a body of unknown length that notices whether it is read.
type upload struct {
	io.Reader
	read bool
}

// Read implements [io.Reader].
func (u *upload) Read(p []byte) (int, error) {
	u.read = true
	return u.Reader.Read(p)
}

// post is a JSON POST with a body of unknown length.
func post(path string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.ContentLength = -1
	r.Header.Set("Content-Type", jsonType)
	return r
}

// TestABodyAboveTheLimitIs413UnderAnExplicitStartAlone: without a start option
// the gateway cannot know that the request was meant for it.
func TestABodyAboveTheLimitIs413UnderAnExplicitStartAlone(t *testing.T) {
	large := `{"stream":true,"x":"` + strings.Repeat("x", 2000) + `"}`
	cases := []struct {
		name, path string
		declared   bool
		config     []configure
		want       int
	}{
		{"explicit, declared", "/chat", true, []configure{starting("POST", "/chat")}, http.StatusRequestEntityTooLarge},
		{"explicit, unknown length", "/chat", false, []configure{starting("POST", "/chat")}, http.StatusRequestEntityTooLarge},
		{"recognised by path, declared", "/v1/chat/completions", true, nil, http.StatusOK},
		{"recognised by path, unknown length", "/v1/chat/completions", false, nil, http.StatusOK},
		{"undecided, declared", "/ask", true, nil, http.StatusOK},
		{"undecided, unknown length", "/ask", false, nil, http.StatusOK},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, mirror, append(c.config, bodyLimit(1000))...)
				r := post(c.path, strings.NewReader(large))
				if c.declared {
					r.ContentLength = int64(len(large))
				}
				w := s.serve(r)
				if w.Code != c.want || w.Header().Get("X-Run-Id") != "" {
					t.Fatalf("got %d of run %q, want %d and no run", w.Code, w.Header().Get("X-Run-Id"), c.want)
				}
				if c.want == http.StatusOK && w.Body.String() != large {
					t.Errorf("backend got %d bytes, want all %d as they were", w.Body.Len(), len(large))
				}
				if c.want != http.StatusOK && (s.calls.Load() != 0 || !strings.Contains(w.Body.String(), `"code":"payload_too_large"`)) {
					t.Errorf("got %d calls and %s", s.calls.Load(), w.Body)
				}
			})
		})
	}
}

// TestABodyAtTheLimitStarts.
func TestABodyAtTheLimitStarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		body := `{"stream":true}`
		for _, config := range [][]configure{{starting("POST", "/ask")}, nil} {
			s := newSite(t, mirror, append(config, bodyLimit(int64(len(body))))...)
			if w := s.serve(post("/ask", strings.NewReader(body))); w.Header().Get("X-Run-Id") == "" || w.Body.String() != body {
				t.Errorf("got %d %q, want a run", w.Code, w.Body)
			}
		}
	})
}

// TestAnAbortedUploadIsNoRun, however it was recognised.
func TestAnAbortedUploadIsNoRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for path, config := range map[string][]configure{"/chat": {starting("POST", "/chat")}, "/v1/chat/completions": nil, "/ask": nil} {
			s := newSite(t, mirror, config...)
			broken := io.MultiReader(strings.NewReader(`{"stream":true,"a":`), failing{io.ErrUnexpectedEOF})
			w := s.serve(post(path, broken))
			if w.Code != http.StatusBadRequest || s.calls.Load() != 0 || len(s.list(t, "")) != 0 {
				t.Errorf("%s: got %d, %d calls and %d runs, want a refusal and nothing else", path, w.Code, s.calls.Load(), len(s.list(t, "")))
			}
		}
	})
}

// failing is a body that breaks.
type failing struct{ err error }

// Read implements [io.Reader].
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestASlowUploadIsNoRunBeforeItIsWhole: nothing is sent upstream and nothing
// is claimed until then.
func TestASlowUploadIsNoRunBeforeItIsWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, mirror, starting("POST", "/chat"))
		pr, pw := io.Pipe()
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- s.serve(post("/chat", pr)) }()
		pw.Write([]byte(`{"a":`)) //nolint:errcheck // the handler reads it
		time.Sleep(time.Hour)
		if s.calls.Load() != 0 || len(s.list(t, "")) != 0 {
			t.Error("a run began before its body was whole")
		}
		pw.Write([]byte(`1}`)) //nolint:errcheck // the handler reads it
		pw.Close()
		if w := <-done; w.Body.String() != `{"a":1}` || w.Header().Get("X-Run-Id") == "" {
			t.Errorf("got %d %q", w.Code, w.Body)
		}
	})
}

// TestRefusalsComeInOrder: each is given before the work of the next; a body
// that will not be used is not asked for (a client with Expect never sends it).
func TestRefusalsComeInOrder(t *testing.T) {
	explicit := []configure{starting("POST", "/chat"), bodyLimit(100)}
	long := strings.Repeat("x", 200)
	cases := []struct {
		name, path string
		config     []configure
		change     func(*http.Request)
		body       string
		code       string
		status     int
		reads      bool
	}{
		{"declared size before identity", "/chat", explicit, func(r *http.Request) { r.ContentLength = 101; nobody(r); foreign(r) }, long, "payload_too_large", 413, false},
		{"identity before CSRF and body", "/chat", explicit, func(r *http.Request) { nobody(r); foreign(r) }, long, "authentication_required", 401, false},
		{"CSRF before body", "/chat", explicit, foreign, long, "csrf_rejected", 403, false},
		{"size before syntax", "/chat", explicit, badKey, long, "payload_too_large", 413, true},
		{"syntax of the key", "/chat", explicit, badKey, "{}", "idempotency_key_invalid", 400, true},
		{"syntax of the conversation", "/chat", explicit, badConversation, "{}", "conversation_invalid", 400, true},
		{"recognised by path: identity before body", "/v1/chat/completions", nil, nobody, "{}", "authentication_required", 401, false},
		{"recognised by path: CSRF before body", "/v1/chat/completions", nil, foreign, "{}", "csrf_rejected", 403, false},
		{"recognised by body: body before identity", "/ask", nil, nobody, `{"stream":true}`, "authentication_required", 401, true},
		{"recognised by body: body before CSRF", "/ask", nil, foreign, `{"stream":true}`, "csrf_rejected", 403, true},
		{"not recognised: nothing is refused", "/ask", nil, func(r *http.Request) { nobody(r); foreign(r); badKey(r) }, `{"a":1}`, "", 200, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, mirror, c.config...)
				body := &upload{Reader: strings.NewReader(c.body)}
				r := post(c.path, body)
				r.Header.Set("X-User", "user-a")
				c.change(r)
				r.Host = "pipe.test"
				w := httptest.NewRecorder()
				s.handler.ServeHTTP(w, r)
				if w.Code != c.status || c.code != "" && !strings.Contains(w.Body.String(), `"code":"`+c.code+`"`) {
					t.Errorf("got %d %s, want %d %s", w.Code, w.Body, c.status, c.code)
				}
				if body.read != c.reads {
					t.Errorf("body was read: %v, want %v", body.read, c.reads)
				}
				if c.code != "" && s.calls.Load() != 0 {
					t.Error("upstream was called")
				}
			})
		})
	}
}

func nobody(r *http.Request) { r.Header.Del("X-User") }

func foreign(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }

func badKey(r *http.Request) { r.Header.Set("Idempotency-Key", "a b") }

func badConversation(r *http.Request) { r.Header.Set("X-Conversation-Id", "a/b") }

// TestUpstreamGetsTheBodyOnceAndWhole: the request cannot be sent twice by
// net/http, and says how long it is.
func TestUpstreamGetsTheBodyOnceAndWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type seen struct {
			length    int64
			encoding  []string
			getBody   bool
			body      []byte
			accept    string
			forbidden []string
		}
		got := make(chan seen, 1)
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			body, err := io.ReadAll(r.Body)
			var forbidden []string
			for _, name := range []string{"Expect", "Idempotency-Key", "X-Idempotency-Key", "If-None-Match", "If-Modified-Since", "Range", "If-Range"} {
				if r.Header.Get(name) != "" {
					forbidden = append(forbidden, name)
				}
			}
			got <- seen{r.ContentLength, r.TransferEncoding, r.GetBody != nil, body, r.Header.Get("Accept-Encoding"), forbidden}
			sse(w)
			return errors.Join(err, say(w, datum("1")))
		}, generic)
		body := []byte(`{"stream":true,"a":"ä"}`)
		r := post("/chat", bytes.NewReader(body))
		r.TransferEncoding = []string{"chunked"}
		for _, name := range []string{"Expect", "Idempotency-Key", "X-Idempotency-Key", "If-None-Match", "If-Modified-Since", "Range", "If-Range"} {
			r.Header.Set(name, "x")
		}
		r.Header.Set("Accept-Encoding", "gzip, br")
		s.serve(r)
		up := <-got
		if up.length != int64(len(body)) || len(up.encoding) > 0 || up.getBody || !bytes.Equal(up.body, body) || up.accept != "identity" || len(up.forbidden) > 0 {
			t.Errorf("got %+v", up)
		}
	})
}

// TestForwardSendsTheKeyUpstream, where the operator says that upstream may
// have it.
func TestForwardSendsTheKeyUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		got := make(chan string, 1)
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			got <- r.Header.Get("Idempotency-Key")
			sse(w)
			return nil
		}, generic, func(c *proxy.Config) { c.Idempotency.Forward = true })
		s.Do(t, startChat().Key("k-1")).Rest()
		if key := <-got; key != "k-1" {
			t.Errorf("got %q, want the key", key)
		}
	})
}
