package demo

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFailureComesInMidStreamAndWithoutAnEndMarker(t *testing.T) {
	d := fast()
	tr := ask(t.Context(), d, streamed("please fail"))
	f := fold(t, tr)
	if f.text == "" || f.failure == nil {
		t.Fatalf("got text %q and error %v, want both", f.text, f.failure)
	}
	if got := *f.failure; got.Code != "scripted_failure" || got.Type != "server_error" || got.Message == "" {
		t.Errorf("got error %+v, want message, type server_error and code scripted_failure", got)
	}
	if f.done || len(f.finish) > 0 || f.usage != nil {
		t.Errorf("got done %v, finish %v, usage %v, want none of them after an error", f.done, f.finish, f.usage)
	}
	if got := d.calls.tally().Calls[0].State; got != failed {
		t.Errorf("got call %q, want %q", got, failed)
	}
}

// server runs the demo on loopback and returns what it logs.
func server(t *testing.T, d *Demo) (*httptest.Server, *bytes.Buffer) {
	t.Helper()
	logged := new(bytes.Buffer)
	s := httptest.NewUnstartedServer(d)
	s.Config.ErrorLog = log.New(logged, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s, logged
}

func post(t *testing.T, s *httptest.Server, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatalf("making the request: %v", err)
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatalf("asking the agent: %v", err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestDropBreaksTheConnectionInMidSentence(t *testing.T) {
	d := fast()
	s, logged := server(t, d)
	body, err := io.ReadAll(post(t, s, streamed("hang up")).Body)
	if err == nil {
		t.Error("got a proper end of the body, want a broken one")
	}
	if !bytes.HasSuffix(body, []byte("\n\n")) || !bytes.Contains(body, []byte("disapp")) {
		t.Errorf("got %q, want the sentence up to where it breaks", body)
	}
	if bytes.Contains(body, []byte("[DONE]")) || bytes.Contains(body, []byte(`"finish_reason":"stop"`)) {
		t.Errorf("got %q, want no end marker", body)
	}
	s.Close() // waits for the handler
	if got := d.calls.tally().Calls[0].State; got != failed {
		t.Errorf("got call %q, want %q", got, failed)
	}
	if logged.Len() > 0 {
		t.Errorf("got log %q, want none", logged)
	}
}

func TestWholeAnswerFailsWithAStatus(t *testing.T) {
	tr := ask(t.Context(), fast(), `{"messages":[{"role":"user","content":"please fail"}]}`)
	if tr.Code != http.StatusInternalServerError || !strings.Contains(tr.Body.String(), `"code":"scripted_failure"`) {
		t.Errorf("got %d %s, want 500 with the error", tr.Code, tr.Body)
	}
	s, _ := server(t, fast())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/chat/completions",
		strings.NewReader(`{"messages":[{"role":"user","content":"hang up"}]}`))
	if err != nil {
		t.Fatalf("making the request: %v", err)
	}
	if res, err := s.Client().Do(req); err == nil {
		_ = res.Body.Close()
		t.Errorf("got status %d, want a broken connection", res.StatusCode)
	}
}
