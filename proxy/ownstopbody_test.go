package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// toldToStop is a backend that streams frames and goes on until it is told to
// stop.
type toldToStop struct {
	start  testkit.Ask
	header map[string]string // of the stream
	frames []string
	// stop is the client's own call, and call what the gateway makes of it.
	stop   testkit.Ask
	call   string
	status int // of the answer to every call
	body   string
	// answer is what the client gets; empty: body.
	answer string

	mu    sync.Mutex // guards everything below
	calls []string
	end   chan struct{}
}

func (b *toldToStop) serve(n int, w http.ResponseWriter, r *http.Request) error {
	if n > 1 {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.calls = append(b.calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body))); len(b.calls) == 1 {
			close(b.end)
		}
		return answers(b.status, jsonType, b.body)(n, w, r)
	}
	for name, v := range b.header {
		w.Header().Set(name, v)
	}
	sse(w)
	for _, f := range b.frames {
		if say(w, f) != nil {
			hangUp()
		}
	}
	select {
	case <-b.end:
		return nil
	case <-r.Context().Done():
		hangUp()
	}
	return nil
}

// told are the calls that the backend got, without the id of a run of ours.
func (b *toldToStop) told(run string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := make([]string, len(b.calls))
	for i, c := range b.calls {
		if calls[i] = c; run != "" {
			calls[i] = strings.ReplaceAll(c, run, "RUN")
		}
	}
	return calls
}

func rpc(id, method, params string) string {
	return `{"jsonrpc":"2.0",` + id + `"method":"` + method + `","params":` + params + `}`
}

const taskFrame = `data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"task-1","contextId":"ctx-1","status":{"state":"TASK_STATE_WORKING"}}}}` + "\n\n"

const oldTaskFrame = `data: {"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"task-1","contextId":"ctx-1","status":{"state":"working"}}}` + "\n\n"

// ownStops are the cancel calls of backends' own clients.
var ownStops = map[string]*toldToStop{
	"a2a 1.0": {
		start:  testkit.Ask{Path: "/", Body: rpc(`"id":1,`, "SendStreamingMessage", `{"message":{"parts":[{"text":"hi"}]}}`)}.With("Accept", "text/event-stream"),
		frames: []string{taskFrame},
		stop:   testkit.Ask{Path: "/", Body: rpc(`"id":"c-7",`, "CancelTask", `{"id":"task-1"}`)},
		call:   "POST / " + rpc(`"id":"RUN",`, "CancelTask", `{"id":"task-1"}`),
		status: 200, body: `{"jsonrpc": "2.0", "id": "RUN", "result":{"id":"task-1","status":{"state":"TASK_STATE_CANCELED"}}}`,
		answer: `{"jsonrpc": "2.0", "id": "c-7", "result":{"id":"task-1","status":{"state":"TASK_STATE_CANCELED"}}}`,
	},
	"a2a 0.3": {
		start:  testkit.Ask{Path: "/agent", Body: rpc(`"id":1,`, "message/stream", `{"message":{"parts":[{"kind":"text","text":"hi"}]}}`)}.With("Accept", "text/event-stream"),
		frames: []string{oldTaskFrame},
		stop:   testkit.Ask{Path: "/agent", Body: rpc(`"id":2,`, "tasks/cancel", `{"id":"task-1","metadata":{}}`)},
		call:   "POST /agent " + rpc(`"id":"RUN",`, "tasks/cancel", `{"id":"task-1"}`),
		status: 200, body: `{"id":"x","jsonrpc":"2.0","error":{"code":-32002,"message":"no"}}`,
		answer: `{"id":2,"jsonrpc":"2.0","error":{"code":-32002,"message":"no"}}`,
	},
	"a2a over HTTP": {
		start:  testkit.Ask{Path: "/v1/message:stream", Body: `{"message":{"parts":[{"text":"hi"}]}}`},
		frames: []string{`data: {"task":{"id":"task-1","contextId":"ctx-1","status":{"state":"TASK_STATE_WORKING"}}}` + "\n\n"},
		stop:   testkit.Ask{Path: "/v1/tasks/task-1:cancel", Body: "{}"},
		call:   "POST /v1/tasks/task-1:cancel", status: 200, body: `{"id":"task-1","status":{"state":"TASK_STATE_CANCELED"}}`,
	},
	"mcp": {
		start:  testkit.Ask{Path: "/mcp", Body: rpc(`"id":4,`, "tools/call", `{"name":"x"}`)}.With("Accept", "application/json, text/event-stream").With("Mcp-Session-Id", "s-1"),
		frames: []string{"id: e1\ndata: \n\n"},
		stop: testkit.Ask{Path: "/mcp", Body: rpc("", "notifications/cancelled", `{"requestId":4,"reason":"enough"}`)}.
			With("Accept", "application/json, text/event-stream").With("Mcp-Session-Id", "s-1"),
		call: "POST /mcp " + rpc("", "notifications/cancelled", `{"requestId":4}`), status: 202,
	},
	"letta": {
		start:  testkit.Ask{Path: "/v1/agents/a1/messages/stream", Body: `{"messages":[]}`},
		frames: []string{`data: {"message_type":"assistant_message","run_id":"run-1","content":"hi"}` + "\n\n"},
		stop:   testkit.Ask{Path: "/v1/agents/a1/messages/cancel", Body: `{"run_ids":["run-1"]}`},
		call:   `POST /v1/agents/a1/messages/cancel {"run_ids":["run-1"]}`, status: 200, body: `{"run-1":"cancelled"}`,
	},
	"copilotkit by path": {
		start:  testkit.Ask{Path: "/api/copilotkit/agent/a/run", Body: `{"threadId":"t-1","runId":"r-1","messages":[]}`},
		frames: []string{runStarted},
		stop:   testkit.Ask{Path: "/api/copilotkit/agent/a/stop/t-1", Body: "{}"},
		call:   "POST /api/copilotkit/agent/a/stop/t-1", status: 200, body: `{"stopped":true,"interrupt":{"type":"RUN_ERROR"}}`,
	},
	"copilotkit by message": {
		start:  testkit.Ask{Path: "/api/copilotkit", Body: `{"method":"agent/run","params":{"agentId":"a"},"body":{"threadId":"t-1","runId":"r-1","messages":[]}}`},
		frames: []string{runStarted},
		stop:   testkit.Ask{Path: "/api/copilotkit", Body: `{"method":"agent/stop","params":{"agentId":"a","threadId":"t-1"}}`},
		call:   `POST /api/copilotkit {"method":"agent/stop","params":{"agentId":"a","threadId":"t-1"}}`, status: 200, body: `{"stopped":true}`,
	},
	"dify": {
		start:  testkit.Ask{Path: "/v1/chat-messages", Body: `{"query":"hi","response_mode":"streaming","user":"u-1"}`},
		frames: []string{`data: {"event":"message","task_id":"task-1","conversation_id":"c-1","answer":"hi"}` + "\n\n"},
		stop:   testkit.Ask{Path: "/v1/chat-messages/task-1/stop", Body: `{"user":"u-1"}`},
		call:   `POST /v1/chat-messages/task-1/stop {"user":"u-1"}`, status: 200, body: `{"result":"success"}`,
	},
	"langgraph": {
		start:  testkit.Ask{Path: "/threads/t-1/runs/stream", Body: `{"assistant_id":"a"}`},
		header: map[string]string{"Content-Location": "/threads/t-1/runs/lg-1"},
		frames: []string{"event: metadata\ndata: {\"run_id\":\"lg-1\",\"attempt\":1}\n\n"},
		stop:   testkit.Ask{Method: http.MethodPost, Path: "/threads/t-1/runs/lg-1/cancel?wait=0&action=interrupt"},
		call:   "POST /threads/t-1/runs/lg-1/cancel?wait=0&action=interrupt", status: 202,
	},
	"langgraph in bulk": {
		start:  testkit.Ask{Path: "/api/langgraph/threads/t-1/runs/stream", Body: `{"assistant_id":"a"}`},
		header: map[string]string{"Content-Location": "/threads/t-1/runs/lg-1"},
		frames: []string{"event: metadata\ndata: {\"run_id\":\"lg-1\",\"attempt\":1}\n\n"},
		stop:   testkit.Ask{Path: "/api/langgraph/runs/cancel?action=rollback", Body: `{"thread_id":"t-1","run_ids":["lg-1"]}`},
		call:   "POST /api/langgraph/threads/t-1/runs/lg-1/cancel?action=rollback", status: 202, answer: "204",
	},
	"flowise": {
		start:  testkit.Ask{Path: "/api/v1/prediction/f-1", Body: `{"question":"hi","streaming":true,"stream":true,"chatId":"c-1"}`},
		frames: []string{"message:\ndata:{\"event\":\"token\",\"data\":\"hi\"}\n\n"},
		stop:   testkit.Ask{Method: http.MethodPut, Path: "/api/v1/chatmessage/abort/f-1/c-1"},
		call:   "PUT /api/v1/chatmessage/abort/f-1/c-1", status: 200, body: `{"status":200,"message":"Chat message aborted"}`,
	},
	"mastra": {
		start:  testkit.Ask{Path: "/api/workflows/w/stream", Body: `{"inputData":{}}`},
		frames: []string{`data: {"type":"workflow-start","runId":"m-1","from":"WORKFLOW","payload":{}}` + "\n\n"},
		stop:   testkit.Ask{Method: http.MethodPost, Path: "/api/workflows/w/runs/m-1/cancel"},
		call:   "POST /api/workflows/w/runs/m-1/cancel", status: 200, body: `{"message":"Workflow run cancelled"}`,
	},
	"fastgpt": {
		start:  testkit.Ask{Path: "/api/v1/chat/completions", Body: `{"stream":true,"detail":true,"appId":"app-1","chatId":"c-1","messages":[]}`},
		frames: []string{fastAnswer},
		stop:   testkit.Ask{Path: "/api/v2/chat/stop", Body: `{"appId":"app-1","chatId":"c-1"}`},
		call:   `POST /api/v2/chat/stop {"appId":"app-1","chatId":"c-1"}`, status: 200, body: `{"code":200,"data":{"success":true}}`,
	},
	"fastgpt whose start names no application": {
		start:  testkit.Ask{Path: "/api/v1/chat/completions", Body: `{"stream":true,"detail":true,"chatId":"c-1","messages":[]}`},
		frames: []string{fastAnswer},
		stop:   testkit.Ask{Path: "/api/v2/chat/stop", Body: `{"appId":"app-1","chatId":"c-1","outLinkAuthData":{"shareId":"s"}}`},
		call:   `POST /api/v2/chat/stop {"appId":"app-1","chatId":"c-1","outLinkAuthData":{"shareId":"s"}}`, status: 200, body: `{"code":200,"data":{"success":true}}`,
	},
}

const (
	runStarted = `data: {"type":"RUN_STARTED","threadId":"t-1","runId":"r-1"}` + "\n\n"
	fastAnswer = "event: answer\ndata: {\"id\":\"\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n"
)

// eachOwnStop runs a test for every cancel call, when its run has begun.
func eachOwnStop(t *testing.T, f func(t *testing.T, b *toldToStop, s *site, first *testkit.Answer)) {
	for name, b := range ownStops {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b.calls, b.end = nil, make(chan struct{})
				s := newSite(t, b.serve)
				first := s.Do(t, b.start).Want(http.StatusOK)
				first.Take(1)
				f(t, b, s, first)
			})
		})
	}
}

// TestEveryBackendsOwnCancelCallIsOurStop, wherever it names the run: one call
// reaches the backend, and the client gets the backend's answer to its own.
func TestEveryBackendsOwnCancelCallIsOurStop(t *testing.T) {
	eachOwnStop(t, func(t *testing.T, b *toldToStop, s *site, first *testkit.Answer) {
		got := s.Do(t, b.stop)
		status, body := b.status, b.answer
		switch body {
		case "204":
			status, body = http.StatusNoContent, ""
		case "":
			body = b.body
		}
		if text := string(got.Body()); got.Status != status || text != body || got.Run() != first.Run() {
			t.Errorf("got %d %s for run %q, want %d %s for %s", got.Status, text, got.Run(), status, body, first.Run())
		}
		first.Bytes() //nolint:errcheck // a dialect that has no words for it is aborted
		if calls := b.told(first.Run()); len(calls) != 1 || calls[0] != b.call {
			t.Errorf("the backend was told %q, want %q alone", calls, b.call)
		}
		rec := s.Snapshot(t, first.Run())
		if rec.State != "cancelled" || !strings.HasPrefix(rec.Outcome(), "cancelled_") || rec.Cancel.Version != 1 {
			t.Errorf("got %s, %s, version %d, want one Stop", rec.State, rec.Outcome(), rec.Cancel.Version)
		}
		if list := string(s.Do(t, testkit.Ask{Path: "/_runs"}).Body()); strings.Count(list, `"run_id"`) != 1 {
			t.Errorf("got %s, want the first run alone", list)
		}
	})
}

// TestAnothersCancelCallPassesUntouched, byte for byte, and stops nothing.
func TestAnothersCancelCallPassesUntouched(t *testing.T) {
	eachOwnStop(t, func(t *testing.T, b *toldToStop, s *site, first *testkit.Answer) {
		got := s.As("user-b").Do(t, b.stop)
		if text := string(got.Body()); got.Status != b.status || text != b.body || got.Run() != "" {
			t.Errorf("got %d %s for run %q, want the backend's answer alone", got.Status, text, got.Run())
		}
		method := b.stop.Method
		if method == "" {
			method = http.MethodPost
		}
		want := strings.TrimSpace(method + " " + b.stop.Path + " " + b.stop.Body)
		if calls := b.told(first.Run()); len(calls) == 0 || calls[0] != want {
			t.Errorf("the backend was told %q, want %q", calls, want)
		}
		if rec := s.Snapshot(t, first.Run()); rec.Cancel.Version != 0 {
			t.Errorf("got %d Stops", rec.Cancel.Version)
		}
	})
}

// lettaSite has a backend whose runs are called run-1, run-2 and so on.
func lettaSite(t *testing.T) (s *site, b *toldToStop) {
	b = &toldToStop{status: http.StatusOK, body: `{"x":"cancelled"}`, end: make(chan struct{})}
	return newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			return b.serve(max(n, 2), w, r)
		}
		return holds(`data: {"message_type":"assistant_message","run_id":"run-`+itoa(n)+`","content":"hi"}`+"\n\n")(n, w, r)
	}), b
}

// TestACallForSeveralRunsStopsEach: of runs of others the backend gets the call
// as it is, when ours are stopped.
func TestACallForSeveralRunsStopsEach(t *testing.T) {
	for named, want := range map[string]struct {
		answer string
		calls  int
	}{
		`["run-1","run-2"]`:         {`{"run-1":"cancelled","run-2":"cancelled"}`, 2},
		`["run-1","run-2","run-9"]`: {`{"x":"cancelled"}`, 3},
		`["run-9"]`:                 {`{"x":"cancelled"}`, 1},
		`[]`:                        {`{"x":"cancelled"}`, 1},
	} {
		inBubble(t, func(t *testing.T) {
			s, b := lettaSite(t)
			start := ownStops["letta"].start
			first, second := s.Do(t, start), s.Do(t, start)
			first.Take(1)
			second.Take(1)
			stop := ownStops["letta"].stop
			stop.Body = `{"run_ids":` + named + `}`
			if got := string(s.Do(t, stop).Want(http.StatusOK).Body()); got != want.answer {
				t.Errorf("%s: got %s, want %s", named, got, want.answer)
			}
			calls := b.told("")
			if len(calls) != want.calls || want.answer == b.body && !strings.HasSuffix(calls[len(calls)-1], stop.Body) {
				t.Errorf("%s: the backend was told %q, want %d calls", named, calls, want.calls)
			}
			for _, a := range []*testkit.Answer{first, second} {
				if rec := s.Snapshot(t, a.Run()); (rec.Cancel.Version == 1) != (want.calls > 1) {
					t.Errorf("%s: got %s", named, rec.State)
				}
			}
		})
	}
}

// TestAnMCPCancelCallIsOfItsSession: requests of each session are numbered anew.
func TestAnMCPCancelCallIsOfItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		mcp := ownStops["mcp"]
		b := &toldToStop{status: http.StatusAccepted, end: make(chan struct{})}
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if n > 2 {
				return b.serve(n, w, r)
			}
			return holds(mcp.frames...)(n, w, r)
		})
		first, second := s.Do(t, mcp.start), s.Do(t, mcp.start.With("Mcp-Session-Id", "s-2"))
		first.Take(1)
		second.Take(1)
		s.Do(t, mcp.stop.With("Mcp-Session-Id", "s-3")).Want(http.StatusAccepted)
		other := mcp.stop
		other.Body = rpc("", "notifications/cancelled", `{"requestId":5}`)
		s.Do(t, other).Want(http.StatusAccepted)
		if got := s.Do(t, mcp.stop.With("Mcp-Session-Id", "s-2")).Want(http.StatusAccepted).Run(); got != second.Run() {
			t.Errorf("got run %q, want %s", got, second.Run())
		}
		if got := s.Stop(t, second.Run()).State + s.Snapshot(t, first.Run()).State; got != "cancelledrunning" {
			t.Errorf("got %s", got)
		}
		if got := len(b.told("")); got != 3 {
			t.Errorf("the backend got %d calls, want those of others as they came and one of ours", got)
		}
	})
}

// TestAnAmbiguousCancelCallStopsNothing: callers without a session of their own
// may number two requests alike.
func TestAnAmbiguousCancelCallStopsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		mcp := ownStops["mcp"]
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if n > 2 {
				return answers(http.StatusAccepted, jsonType, "")(n, w, r)
			}
			return holds(mcp.frames...)(n, w, r)
		})
		first, second := s.Do(t, mcp.start), s.Do(t, mcp.start)
		first.Take(1)
		second.Take(1)
		if got := s.Do(t, mcp.stop).Want(http.StatusAccepted).Run(); got != "" {
			t.Errorf("got run %s, want the backend's answer alone", got)
		}
		if got := s.Snapshot(t, second.Run()).State + s.Snapshot(t, first.Run()).State; got != "runningrunning" {
			t.Errorf("got %s", got)
		}
	})
}

// TestTheSameCancelCallAgainIsAnsweredWithItsOwnNumber, and made once.
func TestTheSameCancelCallAgainIsAnsweredWithItsOwnNumber(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := ownStops["a2a 1.0"]
		b.calls, b.end = nil, make(chan struct{})
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			if n == 1 {
				return holds(b.frames...)(n, w, r) // it stays open: both calls meet an active run
			}
			return b.serve(n, w, r)
		})
		first := s.Do(t, b.start)
		first.Take(1)
		for _, id := range []string{`"c-7"`, "9"} {
			again := b.stop
			again.Body = strings.Replace(again.Body, `"c-7"`, id, 1)
			if got := string(s.Do(t, again).Want(http.StatusOK).Body()); got != strings.Replace(b.answer, `"c-7"`, id, 1) {
				t.Errorf("%s: got %s", id, got)
			}
		}
		if calls := b.told(first.Run()); len(calls) != 1 {
			t.Errorf("the backend was told %q, want once", calls)
		}
	})
}

// TestACancelCallThatIsNotReadPassesUntouched: too large, broken, or from a page
// of another site.
func TestACancelCallThatIsNotReadPassesUntouched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, b := lettaSite(t)
		first := s.Do(t, ownStops["letta"].start)
		first.Take(1)
		stop := ownStops["letta"].stop
		for _, body := range []string{
			`{"run_ids":["run-1"],"pad":"` + strings.Repeat("x", 9<<20) + `"}`, `{"run_ids":["run-1"]`, `{"run_ids":"run-1"}`,
			`{"run_ids":["run-1",{}]}`, "null",
		} {
			stop.Body = body
			s.Do(t, stop).Want(http.StatusOK)
			if calls := b.told(""); !strings.HasSuffix(calls[len(calls)-1], body) {
				t.Errorf("%.40s: the backend got another body", body)
			}
		}
		s.Do(t, ownStops["letta"].stop.With("Sec-Fetch-Site", "cross-site")).Problem(http.StatusForbidden, "csrf_rejected")
		if rec := s.Snapshot(t, first.Run()); rec.Cancel.Version != 0 {
			t.Errorf("got %d Stops", rec.Cancel.Version)
		}
	})
}
