package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

const (
	aguiBegins = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	aguiDone   = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
)

func aguiTool(id, name string) string {
	return datum(`{"type":"TOOL_CALL_START","toolCallId":"`+id+`","toolCallName":"`+name+`"}`) +
		datum(`{"type":"TOOL_CALL_RESULT","toolCallId":"`+id+`","content":"ok"}`)
}

// TestOnlyToolsThatMayChangeSomethingAreAnEffect.
func TestOnlyToolsThatMayChangeSomethingAreAnEffect(t *testing.T) {
	for name, want := range map[string]string{"search_mail": "possible", "upsert_row": "observed", "send_mail": "observed", "": "observed"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, streams(datum(aguiBegins), aguiTool("c1", name), datum(aguiDone)), speaking("ag-ui"), func(c *proxy.Config) {
					c.Tools = proxy.Tools{ReadOnly: []string{"search_*"}, Idempotent: []string{"upsert_*"}}
				})
				run := s.ran(t, startChat())
				if rec := s.Snapshot(t, run); rec.Effect != want {
					t.Errorf("got effect %s, want %s", rec.Effect, want)
				}
				body := string(s.Do(t, testkit.Ask{Path: "/_runs/" + run}).Body())
				if marked := strings.Contains(body, `"idempotent":true`); marked != slices.Contains([]string{"search_mail", "upsert_row"}, name) {
					t.Errorf("got a receipt that says idempotent: %v", marked)
				}
			})
		})
	}
}

// TestAReceiptThatComesAfterAStopIsInTheRecord, although its frame is shown to
// nobody, and the call that it answers is no longer open.
func TestAReceiptThatComesAfterAStopIsInTheRecord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begun := datum(aguiBegins) + datum(`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"send_mail"}`)
		s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			say(w, begun) //nolint:errcheck // the test reads what arrived
			<-r.Context().Done()
			say(w, datum(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"late"}`)+datum(`{"type":"TOOL_CALL_RESULT","toolCallId":"c1","content":"sent"}`)) //nolint:errcheck // see above
			hangUp()
			return nil
		}, speaking("ag-ui"))
		answer := s.Do(t, startChat())
		answer.Take(2)
		rec := s.Stop(t, answer.Run())
		if rec.Effect != "observed" || rec.Outcome() != "cancelled_after_effect" {
			t.Errorf("got effect %s, %s", rec.Effect, rec.Outcome())
		}
		body := string(s.Do(t, testkit.Ask{Path: "/_runs/" + answer.Run()}).Body())
		for want, in := range map[string]bool{`"name":"send_mail","status":"succeeded"`: true, `"result":"sent"`: true, `"unresolved":[]`: true, "late": false} {
			if strings.Contains(body, want) != in {
				t.Errorf("record %s: has %q: %v, want %v", body, want, !in, in)
			}
		}
		if events := answer.Rest(); len(events) != 1 {
			t.Errorf("got %d events after the Stop, want the end alone", len(events))
		}
	})
}
