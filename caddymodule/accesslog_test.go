package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documentedFilter is the configuration of docs/access.md that keeps secrets
// out of Caddy's own logs, at the place of this gateway. Both logs go to its
// file.
func documentedFilter(t *testing.T, g *gateway, backend string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```caddyfile\n(\\(no_secrets\\).*?)```").FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/access.md has no (no_secrets)")
	}
	return strings.NewReplacer(
		"{\n\tlog default {", "{\nadmin off\npersist_config off\nstorage file_system "+filepath.Join(g.dir, "storage")+"\n\tlog default {\nlevel DEBUG\n",
		"import no_secrets", "import no_secrets\noutput file "+g.logFile()+" {\nroll_disabled\n}",
		"chat.example.com {", "http://gateway.test {\nbind unix/"+g.socket(),
		"jwks     https://login.example.com/.well-known/jwks.json", "key HS256 "+caseSecret,
		"https://login.example.com", "https://issuer.example", "audience chat", "audience stream-gateway",
		"localhost:3000", backend,
	).Replace(string(found[1]))
}

// TestTheDocumentedFilterKeepsSecretsOutOfCaddysLogs, of requests that are
// served and of those that fail, at every level.
func TestTheDocumentedFilterKeepsSecretsOutOfCaddysLogs(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.loadText(documentedFilter(t, g, u.Listener.Addr().String()))
	token := minted(t, nil, nil)
	secret := map[string]string{
		"Authorization": "Bearer " + token, "X-Api-Key": "c4n4ry-1", "Api-Key": "c4n4ry-2", "X-Goog-Api-Key": "c4n4ry-3",
		"Idempotency-Key": "c4n4ry-4", "Cookie": "sid=c4n4ry-5; access_token=" + token, "Referer": "https://a.example/?t=c4n4ry-6",
	}
	ask := func(method, path, body string) (*http.Response, string) {
		r := g.request(method, path, body)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		for name, value := range secret {
			r.Header.Set(name, value)
		}
		return g.fetch(r)
	}
	go func() { u.next().finish() }()
	started, _ := ask(http.MethodPost, chatPath+"?access_token="+token+"&page=1", prompt)
	run := started.Header.Get("X-Run-Id")
	_, address := ask(http.MethodPost, "/_runs/"+run+"/ticket", "")
	ticket := regexp.MustCompile(`ticket=([A-Za-z0-9_.-]+)`).FindStringSubmatch(address)
	if len(ticket) != 2 {
		t.Fatalf("got %s, want a ticket", address)
	}
	if resp, text := g.get("/_runs/" + run + "/events?ticket=" + ticket[1]); resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s, want the events", resp.StatusCode, text)
	}
	u.Close()
	for _, path := range []string{"/page", "/other", "/_runs/" + run} { // nobody answers any more
		ask(http.MethodGet, path+"?access_token="+token+"&ticket="+ticket[1], "")
	}
	eventually(t, "the requests in the log", func() bool { return strings.Count(g.log(), "handled request") >= 6 })
	log := g.log()
	for _, want := range []string{"access_token=REDACTED", "ticket=REDACTED", "page=1", "http.log.error", run} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s: it is not looked at", want)
		}
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "c4n4ry") || strings.Contains(line, token) || strings.Contains(line, ticket[1]) {
			t.Errorf("a secret is in %s", line)
		}
	}
}
