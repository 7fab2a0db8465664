package proxy_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestNobodyLearnsWhichRunsExist: for an unknown, a foreign, a deleted and a
// malformed run every resource gives the same bytes, after the same number of
// round trips.
func TestNobodyLearnsWhichRunsExist(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, streams(data(1)...), generic)
		foreign := s.As("user-b").Do(t, startChat()).Run()
		deleted := s.ran(t, testkit.Chat("conv-2", "hello"))
		s.Do(t, deleting(deleted)).Want(http.StatusNoContent)
		time.Sleep(time.Second)
		ids := map[string]string{
			"unknown": "run_0" + strings.Repeat("0", 27), "foreign": foreign, "deleted": deleted,
			"malformed": "run_x", "long": strings.Repeat("x", 500), "no run": "whatever", "upper case": strings.ToUpper(foreign),
		}
		for _, res := range []struct{ method, sub string }{
			{http.MethodGet, ""},
			{http.MethodHead, ""},
			{http.MethodDelete, ""},
			{http.MethodDelete, "?force=true"},
			{http.MethodGet, "/events"},
			{http.MethodGet, "/events?control=off"},
			{http.MethodPost, "/cancel"},
			{http.MethodGet, "/nothing"},
			{http.MethodPost, "/a/b"},
		} {
			answers := map[string]string{}
			for name, id := range ids {
				before := faults.AllCalls()
				a := s.Do(t, testkit.Ask{Method: res.method, Path: "/_runs/" + id + res.sub})
				if a.Status != http.StatusNotFound {
					t.Errorf("%s %s of an %s run: got %d, want 404", res.method, res.sub, name, a.Status)
				}
				var head strings.Builder
				_ = a.Header.Write(&head) // a builder takes everything
				answers[head.String()+string(a.Body())+" after"+callsSince(faults, before)] = name
			}
			if len(answers) != 1 {
				t.Errorf("%s %s: got %d different answers:\n%s", res.method, res.sub, len(answers), strings.Join(slices.Collect(maps.Keys(answers)), "\n"))
			}
		}
	})
}

// TestProblemDocuments have the members that programs and SDKs read, and
// nothing of the machine.
func TestProblemDocuments(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...))
		a := s.Do(t, testkit.Ask{Path: "/_runs/run_x"})
		raw := a.Want(http.StatusNotFound).Body()
		p := testkit.Decode[map[string]any](t, raw)
		if !strings.HasSuffix(p["type"].(string), "docs/protocol.md#run_not_found") || p["title"] == "" || p["status"] != 404.0 || p["detail"] == "" ||
			p["code"] != "run_not_found" || p["retryable"] != false || p["client_actions"] == nil {
			t.Errorf("got %s", raw)
		}
		if e := p["error"].(map[string]any); e["code"] != "run_not_found" || e["type"] != "run_not_found" || !strings.Contains(e["message"].(string), "no such run") {
			t.Errorf("got error %v", e)
		}
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got %v", a.Header)
		}
	})
}

// TestMethodsThatAResourceLacks are 405 with those that it has.
func TestMethodsThatAResourceLacks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		run := s.ran(t, startChat())
		for path, allow := range map[string]string{
			"": "GET, HEAD, OPTIONS", "/" + run: "GET, HEAD, DELETE, OPTIONS", "/" + run + "/events": "GET, HEAD, OPTIONS",
			"/" + run + "/cancel": "POST, OPTIONS", "/active": "GET, HEAD, OPTIONS", "/active/events": "GET, HEAD, OPTIONS", "/active/cancel": "POST, OPTIONS",
		} {
			a := s.Do(t, testkit.Ask{Method: http.MethodPatch, Path: "/_runs" + path})
			if !sameList(a.Header.Get("Allow"), allow) {
				t.Errorf("%s: got Allow %q, want %q", path, a.Header.Get("Allow"), allow)
			}
			a.Problem(http.StatusMethodNotAllowed, "method_not_allowed")
			options := s.Do(t, testkit.Ask{Method: http.MethodOptions, Path: "/_runs" + path}).Want(http.StatusNoContent)
			if !sameList(options.Header.Get("Allow"), allow) {
				t.Errorf("OPTIONS %s: got Allow %q, want %q", path, options.Header.Get("Allow"), allow)
			}
		}
	})
}

func sameList(a, b string) bool {
	x, y := strings.Split(a, ", "), strings.Split(b, ", ")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// TestTheRecordIsCachedByItsTag, which changes with every frame.
func TestTheRecordIsCachedByItsTag(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) error {
			sse(w)
			if err := say(w, datum("1")); err != nil {
				return err
			}
			<-goOn
			return say(w, datum("2"))
		}, generic)
		started := s.Do(t, startChat())
		started.Take(1)
		record := testkit.Ask{Path: "/_runs/" + started.Run()}
		first := s.Do(t, record).Want(http.StatusOK)
		tag := first.Header.Get("Etag")
		for _, held := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			if body := s.Do(t, record.With("If-None-Match", held)).Want(http.StatusNotModified).Body(); len(body) > 0 {
				t.Errorf("If-None-Match %s: got a body", held)
			}
		}
		s.Do(t, record.With("If-None-Match", `"other"`)).Want(http.StatusOK)
		close(goOn)
		started.Rest()
		if now := s.Do(t, record.With("If-None-Match", tag)).Want(http.StatusOK).Header.Get("Etag"); now == tag {
			t.Error("the tag of an ended run is that of an active one")
		}
	})
}

// TestTheRecordTellsNoSecrets: neither who owns the run, nor its key or prompt.
func TestTheRecordTellsNoSecrets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(chatFrame("a"), chatDone))
		run := s.ran(t, testkit.Chat("conv-1", "canary-prompt").Key("canary-key").With("Authorization", "Bearer canary-token"))
		for _, path := range []string{"/_runs/" + run, "/_runs", "/_runs/active?conversation_id=conv-1"} {
			raw := string(s.Do(t, testkit.Ask{Path: path}).Want(http.StatusOK).Body())
			for _, secret := range []string{"canary", "user-a", "pipe.test", "epoch", "fingerprint"} {
				if strings.Contains(raw, secret) {
					t.Errorf("%s: got %q in %s", path, secret, raw)
				}
			}
		}
	})
}

// TestTheList: the caller's own runs, newest first, a page at a time.
func TestTheList(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, inTurn(streams(data(1)...), breaks(data(1)...), streams(data(1)...)), generic)
		var runs []string
		for i := range 5 {
			runs = append(runs, s.ran(t, testkit.Chat("conv-"+itoa(i%2), "hello "+itoa(i))))
			time.Sleep(time.Second)
		}
		slices.Reverse(runs)
		type page struct {
			Runs []testkit.Record `json:"runs"`
			Next *string          `json:"next"`
		}
		var seen []string
		for query := "?limit=2"; ; {
			p := testkit.Decode[page](t, s.Do(t, testkit.Ask{Path: "/_runs" + query}).Want(http.StatusOK).Body())
			for _, r := range p.Runs {
				if seen = append(seen, r.RunID); r.Snapshot != nil {
					t.Error("a list shows snapshots")
				}
			}
			if p.Next == nil {
				break
			}
			query = "?limit=2&page=" + *p.Next
		}
		if !slices.Equal(seen, runs) {
			t.Errorf("got %v, want %v", seen, runs)
		}
		if got := s.list(t, "?conversation_id=conv-1"); len(got) != 2 {
			t.Errorf("got %d runs of conv-1, want 2", len(got))
		}
		if got := s.list(t, "?state=failed"); len(got) != 1 || got[0].RunID != runs[3] {
			t.Errorf("got %d failed runs, want the second", len(got))
		}
		if got := s.As("user-b").Do(t, testkit.Ask{Path: "/_runs"}).Body(); !strings.Contains(string(got), `"runs":[]`) {
			t.Errorf("somebody else got %s", got)
		}
		for query, code := range map[string]string{
			"?limit=0": "malformed_request", "?limit=x": "malformed_request", "?state=done": "malformed_request",
			"?conversation_id=a/b": "conversation_invalid", "?page=!": "malformed_request",
		} {
			s.Do(t, testkit.Ask{Path: "/_runs" + query}).Problem(http.StatusBadRequest, code)
		}
	})
}
