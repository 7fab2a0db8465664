package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// caseFile is the path of an input of a case.
func caseFile(name, file string) string { return filepath.Join("testdata", "cases", name, file) }

// caseScript loads an upstream script of a case.
func caseScript(t testing.TB, name, file string) testkit.Script {
	t.Helper()
	return testkit.LoadScript(t, caseFile(name, file))
}

// caseBytes loads an input of a case.
func caseBytes(t testing.TB, name, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(caseFile(name, file))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// expected loads the expectation of a case.
func expected[T any](t testing.TB, name string) T {
	t.Helper()
	return testkit.Decode[T](t, caseBytes(t, name, "expect.json"))
}

// caseAsk loads a request of a case. Whose it is and where it goes is the
// client's to say.
func caseAsk(t testing.TB, name, file string) testkit.Ask {
	t.Helper()
	raw := string(caseBytes(t, name, file))
	raw = strings.NewReplacer("{{START_PATH}}", "/v1/chat/completions", "{{TOKEN_A}}", "a", "{{CONVERSATION_HEADER}}", "X-Conversation-Id").Replace(raw)
	head, body, _ := strings.Cut(strings.ReplaceAll(raw, "\r\n", "\n"), "\n\n")
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)))
	if err != nil {
		t.Fatal(err)
	}
	read, err := io.ReadAll(req.Body)
	if err != nil || !bytes.Equal(read, []byte(body)) {
		t.Fatalf("%s: body does not have its length: %v", file, err)
	}
	return testkit.Ask{Method: req.Method, Path: req.URL.RequestURI(), Body: body, Header: req.Header}
}

// token is the n-th frame of the scripts of the OpenAI chat shape.
func token(n int) testkit.Pair {
	return testkit.Pair{"message", fmt.Sprintf(`{"id":"c1","choices":[{"index":0,"delta":{"content":"tok%d "}}]}`, n)}
}

// wantPairs fails the test when the content of events is not as wanted.
func wantPairs(t testing.TB, events []testkit.Event, want []testkit.Pair) {
	t.Helper()
	got := testkit.Pairs(testkit.Content(events))
	if slices.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("got %d events, want %d; the first that differs is number %d: got %.200q, want %.200q",
		len(got), len(want), at+1, rest(got, at), rest(want, at))
}

func rest(p []testkit.Pair, at int) []testkit.Pair { return p[at:min(len(p), at+2)] }

func jsonString(raw json.RawMessage, into *string) error { return json.Unmarshal(raw, into) }
