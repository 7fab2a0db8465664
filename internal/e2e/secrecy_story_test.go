package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestNothingTellsASecret holds for all that a gateway says to anybody but the
// owner of a run: its log at every level, with the traces in it, the metrics,
// the configuration as the admin interface shows it, and what it keeps of
// credentials in Redis.
func TestNothingTellsASecret(t *testing.T) {
	s := newSecretSite(t)
	s.wholeLife(s.script(siteCookie, "ann"), s.script(siteCookie, "bob"))
	ann, bob := signed(t, "ann", canaryKey, time.Hour), signed(t, "bob", canaryKey, time.Hour)
	s.hidden = append(s.hidden, signature(ann), signature(bob))
	s.wholeLife(s.Client(siteToken).With("Authorization", "Bearer "+ann), s.Client(siteToken).With("Cookie", "access="+bob))
	s.badTokens()
	s.browser()
	s.failures()
	s.keptInRedis()
	s.outage()
	for _, path := range []string{"/metrics", "/config/", "/reverse_proxy/upstreams"} {
		text, err := s.Admin(path, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.search("admin "+path, string(text))
	}
	if err := s.Stop(); err != nil { // writes the last spans
		t.Fatal(err)
	}
	s.searchLog()
}

func signature(token string) string { return token[strings.LastIndexByte(token, '.')+1:] }

// badTokens are refused, each for a reason of its own.
func (s *secretSite) badTokens() {
	good := signed(s.t, "eve", canaryKey, time.Hour)
	body, _, _ := strings.Cut(good, "."+signature(good))
	bad := []string{
		canary, canary + "." + canary + "." + canary, body + "." + canary, body + ".",
		signed(s.t, "eve", canaryKey, -time.Hour), signed(s.t, "eve", strings.Repeat("z", 64), time.Hour), signed(s.t, "", canaryKey, time.Hour),
	}
	for _, token := range bad {
		if sig := signature(token); len(sig) > 20 {
			s.hidden = append(s.hidden, sig)
		}
		start := testkit.Chat("conv-9", canary+"-prompt")
		refused(s.t, s.Client(siteToken).With("Authorization", "Bearer "+token), start, http.StatusUnauthorized)
		refused(s.t, s.Client(siteToken).With("Cookie", "access="+token), start, http.StatusUnauthorized)
		refused(s.t, s.Client(siteToken), testkit.Ask{Path: "/_runs"}.Query("access_token", token), http.StatusUnauthorized)
	}
}

// browser is known by the cookie that it gets.
func (s *secretSite) browser() {
	stage := s.upstream.Stage(testkit.SSE(said(canary+"-answer"), saidAll))
	c := s.Client(siteCookie).On(stage).With("Cookie", "sid="+canary+"-sid")
	first := c.Do(s.t, testkit.Chat("", canary+"-prompt")).Want(http.StatusOK)
	first.Rest()
	cookie, _, _ := strings.Cut(first.Header.Get("Set-Cookie"), ";")
	_, value, ok := strings.Cut(cookie, "=")
	if !ok {
		s.t.Fatalf("got no session cookie in %v", first.Header)
	}
	s.hidden = append(s.hidden, value)
	c.With("Cookie", cookie+"; sid="+canary+"-sid").Snapshot(s.t, first.Run())
	refused(s.t, c.With("Cookie", cookie+"x; sid="+canary+"-sid"), testkit.Ask{Path: "/_runs/" + first.Run()}, http.StatusNotFound)
	foreign := testkit.Chat("", canary+"-prompt").With("Origin", "https://"+canary+".example").With("Sec-Fetch-Site", "cross-site")
	refused(s.t, c.With("Cookie", cookie), foreign, http.StatusForbidden)
}

// failures are runs that end in every other way.
func (s *secretSite) failures() {
	events, plain := testkit.Header("Content-Type", "text/event-stream"), testkit.Header("Content-Type", "application/json")
	part := testkit.Send(said(canary + "-answer"))
	ends := map[string]testkit.Script{
		"refusal":   {testkit.Status(http.StatusInternalServerError), plain, testkit.Header("X-Upstream-Secret", canary), testkit.Send(`{"error":"` + canary + `-answer"}`), testkit.End()},
		"error":     {events, part, testkit.Send(`data: {"error":{"message":"` + canary + `-answer"}}` + "\n\n"), testkit.End()},
		"cut":       {events, part, testkit.Cut()},
		"reset":     {events, part, testkit.Reset()},
		"no marker": {events, part, testkit.End()},
		"too large": {events, testkit.Send(said(canary + strings.Repeat("x", 20_000))), testkit.End()},
		"no frames": {events, testkit.Send(canary + ": " + canary + "\n\n\x00" + canary + "\n"), testkit.End()},
		"no header": {testkit.Reset()},
		"bad gzip":  {events, testkit.Header("Content-Encoding", "gzip"), testkit.Send(canary), testkit.End()},
	}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		a := s.script(siteCookie, "ann").On(s.upstream.Stage(ends[name])).Do(s.t, testkit.Chat("", canary+"-prompt "+name))
		_, _ = a.Bytes() // how it ends is not what this test is about
	}
	refused(s.t, s.script(siteNobody, "ann"), testkit.Chat("", canary+"-prompt"), http.StatusBadGateway)
	hanging := s.script(siteCookie, "ann").On(s.upstream.Stage(testkit.Script{events, part, testkit.Hang()}))
	malformed := testkit.Chat("", "")
	malformed.Body = `{"stream":true,"messages":[` + canary
	a := hanging.Do(s.t, malformed)
	a.Next()
	if got := hanging.Stop(s.t, a.Run()); got.State != "cancelled" {
		s.t.Errorf("got state %s after Stop, want cancelled", got.State)
	}
}

// outage kills Redis under a run, so that its client has remarks to make.
func (s *secretSite) outage() {
	gate := make(chan struct{})
	script := testkit.Script{testkit.Header("Content-Type", "text/event-stream"), testkit.Send(said(canary + "-answer")), testkit.Gate(gate), testkit.Send(saidAll), testkit.End()}
	stage := s.upstream.Stage(script)
	a := s.script(siteCookie, "ann").On(stage).Do(s.t, testkit.Chat("", canary+"-prompt")).Want(http.StatusOK)
	a.Next()
	s.redis.Kill()
	close(gate)
	stage.Call(s.t, 1).AwaitEnd(s.t)
	refused(s.t, s.script(siteCookie, "ann"), testkit.Chat("", canary+"-prompt"), http.StatusServiceUnavailable)
	s.redis.Start()
	_, _ = a.Bytes()
	testkit.Eventually(s.t, "runs begin again", func() bool {
		return s.script(siteCookie, "ann").On(s.upstream.Stage(testkit.SSE(saidAll))).Do(s.t, testkit.Chat("", canary+"-prompt")).Status == http.StatusOK
	})
}

// keptInRedis holds answers, and no credential.
func (s *secretSite) keptInRedis() {
	keys, ok := s.redis.Do("KEYS", "*").([]any)
	if !ok || len(keys) == 0 {
		s.t.Fatal("got no keys in Redis, want those of the runs")
	}
	for _, key := range keys {
		text, ok := s.redis.Do("DUMP", key).(string)
		if !ok {
			continue // it has expired
		}
		for _, word := range []string{"-bearer", "-api-key", "-sid", "-key", "-prompt", "-password", "-secret"} {
			if strings.Contains(text, canary+word) || strings.Contains(key.(string), canary) {
				s.t.Errorf("Redis key %v: got %s in it, want no secret of a request", key, canary+word)
			}
		}
	}
}

// search fails the test for every secret in a text.
func (s *secretSite) search(where, text string) {
	s.t.Helper()
	for _, secret := range append([]string{canary}, s.hidden...) {
		if at := strings.Index(text, secret); at >= 0 {
			s.t.Errorf("%s: got a secret: %q", where, text[max(0, at-200):min(len(text), at+100)])
		}
	}
}

// searchLog searches every line but for the fields of requests and answers that
// Caddy's own loggers write down: what they hide is the operator's choice.
func (s *secretSite) searchLog() {
	ours, levels := 0, map[string]bool{}
	for _, line := range s.Log.Lines("") {
		var entry map[string]any
		if json.NewDecoder(bytes.NewReader([]byte(line))).Decode(&entry) == nil {
			logger, _ := entry["logger"].(string)
			if strings.Contains(logger, "agent_runs") {
				ours++
				levels[entry["level"].(string)] = true
			} else if strings.HasPrefix(logger, "http.") {
				delete(entry, "request")
				delete(entry, "headers")
				delete(entry, "resp_headers")
				if text, err := json.Marshal(entry); err == nil {
					line = string(text)
				}
			}
		}
		s.search("log", line)
	}
	for _, level := range []string{"debug", "info", "warn"} {
		if !levels[level] {
			s.t.Errorf("got no line of level %s among %d of ours, want all levels searched", level, ours)
		}
	}
	for _, text := range []string{`"SpanContext"`, "agent_run.state", "connection refused"} {
		if len(s.Log.Lines(text)) == 0 {
			s.t.Errorf("got no %s in the log, want traces and the outage searched", text)
		}
	}
}
