package demo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWhatIsNoChatRequestIsRefusedInTheShapeOfSDKs(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON":           `hello`,
		"nothing":           ``,
		"no messages":       `{"stream":true}`,
		"messages no array": `{"messages":"hello"}`,
		"content a number":  `{"messages":[{"role":"user","content":7}]}`,
		"too large":         `{"messages":[{"role":"user","content":"` + strings.Repeat("x", maxRequest) + `"}]}`,
	} {
		d := fast()
		tr := ask(t.Context(), d, body)
		var got errorBody
		if err := json.Unmarshal(tr.Body.Bytes(), &got); err != nil {
			t.Errorf("%s: reading %q: %v", name, tr.Body, err)
		}
		if tr.Code != http.StatusBadRequest || got.Error.Type != "invalid_request_error" || got.Error.Message == "" {
			t.Errorf("%s: got %d %+v, want 400 with an invalid_request_error", name, tr.Code, got)
		}
		if n := d.calls.tally().Total; n != 0 {
			t.Errorf("%s: got %d calls counted, want none", name, n)
		}
	}
}

func TestChatTakesPostOnly(t *testing.T) {
	w := httptest.NewRecorder()
	fast().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/chat/completions", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("got status %d, want 405", w.Code)
	}
}

func TestModelHasADefault(t *testing.T) {
	tr := ask(t.Context(), fast(), `{"messages":[{"role":"user","content":"hello"}]}`)
	var c completion
	if err := json.Unmarshal(tr.Body.Bytes(), &c); err != nil {
		t.Fatalf("reading %q: %v", tr.Body, err)
	}
	if c.Model != defaultModel {
		t.Errorf("got model %q, want %q", c.Model, defaultModel)
	}
}
