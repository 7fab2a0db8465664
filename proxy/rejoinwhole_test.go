package proxy_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// tasks is a backend of A2A 1.0 whose connections break. A stream that is joined
// begins with the task as it is then.
type tasks struct {
	first  []string // frames before the connection breaks
	joined [][]string
	task   string // what is said about the task when its streams are over; empty: nothing
	closed bool   // streams are not joined any more

	mu    sync.Mutex // guards everything below
	calls []string   // methods, in order
	ids   []string   // of the messages
}

func (b *tasks) serve(n int, w http.ResponseWriter, r *http.Request) error {
	raw, _ := io.ReadAll(r.Body)
	body := gjson.ParseBytes(raw)
	b.mu.Lock()
	method := body.Get("method").Str
	b.calls, b.ids = append(b.calls, method), append(b.ids, body.Get("id").Raw)
	var frames []string
	switch {
	case method == "SendStreamingMessage":
		frames = b.first
	case method == "SubscribeToTask" && len(b.joined) > 0 && !b.closed:
		frames, b.joined = b.joined[0], b.joined[1:]
	}
	task := b.task
	b.mu.Unlock()
	switch {
	case method != "SendStreamingMessage" && body.Get("params.id").Str != "task-1":
		w.WriteHeader(http.StatusNotFound)
		return nil
	case method == "GetTask" && task != "":
		return answers(http.StatusOK, jsonType, `{"jsonrpc": "2.0", "id": `+body.Get("id").Raw+`,`+"\n"+`"result": `+task+`}`)(n, w, r)
	case frames == nil:
		return answers(http.StatusOK, jsonType, `{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"ended"}}`)(n, w, r)
	}
	sse(w)
	for _, f := range frames {
		if pause(r, 100*time.Millisecond) != nil || say(w, f) != nil {
			break
		}
	}
	hangUp()
	return nil
}

// said are the calls after the first, joined.
func (b *tasks) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.calls[1:], " ")
}

func taskSays(result string) string { return datum(`{"jsonrpc":"2.0","id":7,"result":` + result + `}`) }

func taskAt(state, artifacts string) string {
	return `{"id":"task-1","contextId":"ctx-1","status":{"state":"TASK_STATE_` + state + `"},"artifacts":[` + artifacts + `]}`
}

func piece(text string, more bool) string {
	return taskSays(`{"artifactUpdate":{"taskId":"task-1","contextId":"ctx-1","artifact":{"artifactId":"a1","parts":[{"text":"` + text + `"}]},"append":` + map[bool]string{true: "true", false: "false"}[more] + `}}`)
}

func artifact(id, text string) string {
	return `{"artifactId":"` + id + `","parts":[{"text":"` + text + `"}]}`
}

var (
	taskBegun = taskSays(`{"task":` + taskAt("WORKING", "") + `}`)
	taskDone  = taskSays(`{"statusUpdate":{"taskId":"task-1","contextId":"ctx-1","status":{"state":"TASK_STATE_COMPLETED"}}}`)
	askTask   = testkit.Ask{Path: "/", Body: rpc(`"id":7,`, "SendStreamingMessage", `{"message":{"parts":[{"text":"hi"}]}}`)}.With("Accept", "text/event-stream")
)

// whole is the frame with which a joined stream begins.
func whole(state string, artifacts ...string) string {
	return taskSays(`{"task":` + taskAt(state, strings.Join(artifacts, ",")) + `}`)
}

// TestAStreamWithoutPositionsIsJoinedAgain when it begins with all that was made
// so far: nothing that was said meanwhile is missing, and the end is the
// backend's.
func TestAStreamWithoutPositionsIsJoinedAgain(t *testing.T) {
	for name, c := range map[string]*struct {
		b          tasks
		events     int // of the answer
		reattached int
		state      string
		text       string
		said       string
	}{
		"something was said meanwhile": {
			tasks{first: []string{taskBegun, piece("one ", false)}, joined: [][]string{{whole("WORKING", artifact("a1", "one two ")), piece("three", true), taskDone}}},
			5, 1, "completed", "one two three", "SubscribeToTask",
		},
		"nothing was": {
			tasks{first: []string{taskBegun, piece("one ", false)}, joined: [][]string{{whole("WORKING", artifact("a1", "one ")), piece("two", true), taskDone}}},
			5, 1, "completed", "one two", "SubscribeToTask",
		},
		"two artifacts, twice": {
			tasks{first: []string{taskBegun, piece("one ", false)}, joined: [][]string{
				{whole("WORKING", artifact("a0", "zero "), artifact("a1", "one "))}, {whole("WORKING", artifact("a0", "zero "), artifact("a1", "one two")), taskDone},
			}},
			5, 2, "completed", "zero one two", "SubscribeToTask SubscribeToTask",
		},
		"breaks before there is anything new": {
			tasks{first: []string{taskBegun, piece("one", false)}, joined: [][]string{
				{whole("WORKING", artifact("a1", "one"))}, {whole("WORKING", artifact("a1", "one"))}, {whole("WORKING", artifact("a1", "one")), taskDone},
			}},
			4, 3, "completed", "one", "SubscribeToTask SubscribeToTask SubscribeToTask",
		},
		"has ended meanwhile, and says so": {
			tasks{first: []string{taskBegun, piece("one ", false)}, joined: [][]string{{whole("COMPLETED", artifact("a1", "one two"))}}},
			3, 1, "completed", "one two", "SubscribeToTask",
		},
		"has ended meanwhile, and is not joined": {
			tasks{first: []string{taskBegun, piece("one ", false)}, closed: true, task: taskAt("COMPLETED", artifact("a1", "one two"))},
			3, 0, "completed", "one two", "SubscribeToTask GetTask",
		},
		"has failed meanwhile": {
			tasks{first: []string{taskBegun, piece("one", false)}, closed: true, task: taskAt("FAILED", artifact("a1", "one"))},
			3, 0, "failed", "one", "SubscribeToTask GetTask",
		},
		"does not begin with the task": {
			tasks{first: []string{taskBegun, piece("one ", false)}, joined: [][]string{{piece("three", true), taskDone}}, task: taskAt("COMPLETED", artifact("a1", "one two three"))},
			3, 0, "completed", "one two three", "SubscribeToTask GetTask",
		},
		"begins with an error": {
			tasks{first: []string{taskBegun, piece("one ", false)}, joined: [][]string{{datum(`{"jsonrpc":"2.0","id":7,"error":{"code":-32004}}`)}}, task: taskAt("CANCELED", artifact("a1", "one "))},
			3, 0, "cancelled", "one ", "SubscribeToTask GetTask",
		},
		"is not known any more": {
			tasks{first: []string{taskBegun, piece("one ", false)}, closed: true},
			3, 0, "failed", "one ", "SubscribeToTask GetTask",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &c.b
				s := newSite(t, b.serve)
				first := s.Do(t, askTask)
				events := first.Rest()
				testkit.CheckIDs(t, first.Run(), 1, events)
				if len(events) != c.events || strings.Contains(datas(events), `"id":"`) && strings.Contains(datas(events), `"id":"run_`) {
					t.Errorf("got %d events, want %d:\n%s", len(events), c.events, datas(events))
				}
				rec := s.Snapshot(t, first.Run())
				if rec.State != c.state || rec.Upstream.Reattached != c.reattached || rec.Snapshot.Text != c.text {
					t.Errorf("got %s, reattached %d times, text %q, want %s, %d, %q", rec.State, rec.Upstream.Reattached, rec.Snapshot.Text, c.state, c.reattached, c.text)
				}
				if got := b.said(); got != c.said {
					t.Errorf("the backend was asked %q, want %q", got, c.said)
				}
				for _, id := range b.ids {
					if id != "7" {
						t.Errorf("a message has the number %s, want that of the start", id)
					}
				}
			})
		})
	}
}

// TestATaskThatGoesOnIsAskedForUntilItHasEnded, when its stream cannot be joined.
func TestATaskThatGoesOnIsAskedForUntilItHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &tasks{first: []string{taskBegun, piece("one ", false)}, closed: true, task: taskAt("WORKING", "")}
		s := newSite(t, b.serve)
		first := s.Do(t, askTask)
		first.Take(2)
		time.Sleep(5 * time.Second)
		if rec := s.Snapshot(t, first.Run()); rec.State != "running" || !rec.Upstream.Reattachable {
			t.Errorf("got %s, reattachable %v", rec.State, rec.Upstream.Reattachable)
		}
		b.mu.Lock()
		b.task = taskAt("COMPLETED", artifact("a1", "one two"))
		b.mu.Unlock()
		if events := first.Rest(); len(events) != 1 || !strings.Contains(events[0].Data, `"one two"`) {
			t.Errorf("got %v, want the whole task", testkit.Pairs(events))
		}
		if rec := s.Snapshot(t, first.Run()); rec.State != "completed" || rec.Snapshot.Text != "one two" {
			t.Errorf("got %s, %q", rec.State, rec.Snapshot.Text)
		}
	})
}

// TestARecordedTaskIsJoinedAgain: the streams are those of a server of the
// official kit, which joined a task before it had made anything.
func TestARecordedTaskIsJoinedAgain(t *testing.T) {
	folder := testkit.RequireFixtures(t)
	recorded := func(name, id string) []string {
		raw, err := os.ReadFile(filepath.Join(folder, "a2a", name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), `"id":"`+id+`"`, `"id":7`) // the server repeats what it is asked with
		frames := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n\n", "\n\n")
		return frames[:len(frames)-1]
	}
	inBubble(t, func(t *testing.T) {
		first, joined := recorded("v1-canceled.sse", "req-2")[:2], recorded("v1-subscribe-to-task.sse", "sub")
		var asked []string
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			raw, _ := io.ReadAll(r.Body)
			asked = append(asked, gjson.GetBytes(raw, "method").Str+" "+gjson.GetBytes(raw, "params.id").Str)
			sse(w)
			for _, f := range [][]string{first, joined}[min(n, 2)-1] {
				say(w, f) //nolint:errcheck // the test reads what arrived
			}
			if n == 1 {
				hangUp()
			}
			return nil
		})
		a := s.Do(t, askTask)
		events := a.Rest()
		testkit.CheckIDs(t, a.Run(), 1, events)
		var want []string
		for _, f := range append(first, joined...) {
			want = append(want, strings.TrimSuffix(strings.TrimPrefix(f, "data: "), "\n\n"))
		}
		if got := datas(events); got != strings.Join(want, "|") {
			t.Errorf("got\n%s, want\n%s", got, strings.Join(want, "|"))
		}
		rec := s.Snapshot(t, a.Run())
		if rec.State != "cancelled" || rec.Upstream.Reattached != 1 || rec.Snapshot.Text != "Hello " {
			t.Errorf("got %s, reattached %d times, %q", rec.State, rec.Upstream.Reattached, rec.Snapshot.Text)
		}
		if len(asked) != 2 || asked[1] != "SubscribeToTask 9625c47b-0cf8-4ba3-942e-f4a95fbbc1bf" {
			t.Errorf("the backend was asked %q, want one generation and one join", asked)
		}
	})
}

// TestABadEndIsBelievedOfABrokenStream that cannot be joined, and a good one is
// not: frames are missing.
func TestABadEndIsBelievedOfABrokenStream(t *testing.T) {
	for status, want := range map[string]string{
		"cancelled": "cancelled", "failed": "failed upstream_error", "completed": "failed upstream_truncated",
		"in_progress": "failed upstream_truncated", "": "failed upstream_truncated",
	} {
		t.Run(status, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var asked []string
				s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
					if n > 1 {
						asked = append(asked, r.Method+" "+r.URL.Path)
						return answers(http.StatusOK, jsonType, `{"id":"run_1","status":"`+status+`"}`)(n, w, r)
					}
					sse(w)
					say(w, "event: thread.run.created\ndata: {\"id\":\"run_1\",\"object\":\"thread.run\",\"thread_id\":\"t-1\"}\n\n") //nolint:errcheck // the test reads what arrived
					hangUp()
					return nil
				}, speaking("openai-assistants"), starting("POST", "/v1/threads/*"))
				a := s.Do(t, testkit.Ask{Path: "/v1/threads/t-1/runs", Body: `{"assistant_id":"a","stream":true}`})
				a.Rest()
				rec := s.Snapshot(t, a.Run())
				if got := strings.TrimSpace(rec.State + " " + rec.Reason()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if len(asked) != 1 || asked[0] != "GET /v1/threads/t-1/runs/run_1" {
					t.Errorf("the backend was asked %q, want the status once", asked)
				}
			})
		})
	}
}

// TestATaskThatAsksIsNotJoinedAgain when its stream ends properly: the answer to
// its question is another request.
func TestATaskThatAsksIsNotJoinedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(oldTaskFrame, datum(`{"jsonrpc":"2.0","id":1,"result":{"kind":"status-update","taskId":"task-1","contextId":"ctx-1","final":false,"status":{"state":"input-required"}}}`)))
		ask := ownStops["a2a 0.3"].start
		a := s.Do(t, ask)
		a.Rest()
		if rec := s.Snapshot(t, a.Run()); rec.State != "completed" || rec.Reason() != "input_required" || s.calls.Load() != 1 {
			t.Errorf("got %s, %s after %d calls, want the question after one", rec.State, rec.Reason(), s.calls.Load())
		}
	})
}

// TestATaskIsJoinedAsItsStartSpoke: the older names, and plain HTTP.
func TestATaskIsJoinedAsItsStartSpoke(t *testing.T) {
	for name, want := range map[string]string{
		"a2a 0.3":       "POST /agent " + rpc(`"id":1,`, "tasks/resubscribe", `{"id":"task-1"}`) + "|POST /agent " + rpc(`"id":1,`, "tasks/get", `{"id":"task-1"}`),
		"a2a over HTTP": "POST /v1/tasks/task-1:subscribe |GET /v1/tasks/task-1 ",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var asked []string
				s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
					if n == 1 {
						sse(w)
						say(w, ownStops[name].frames[0]) //nolint:errcheck // the test reads what arrived
						hangUp()
					}
					body, _ := io.ReadAll(r.Body)
					asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+string(body))
					task := `{"kind":"task","id":"task-1","contextId":"ctx-1","status":{"state":"completed"},"artifacts":[` + artifact("a", "all") + `]}`
					switch {
					case n == 2:
						return answers(http.StatusOK, jsonType, `{"jsonrpc":"2.0","id":1,"error":{"code":-32001}}`)(n, w, r)
					case r.Method == http.MethodGet:
						task = strings.Replace(strings.Replace(task, `"kind":"task",`, "", 1), "completed", "TASK_STATE_COMPLETED", 1)
						return answers(http.StatusOK, jsonType, task)(n, w, r)
					default:
						return answers(http.StatusOK, jsonType, `{"jsonrpc":"2.0","id":1,"result":`+task+`}`)(n, w, r)
					}
				})
				a := s.Do(t, ownStops[name].start)
				events := a.Rest()
				testkit.CheckIDs(t, a.Run(), 1, events)
				if got := strings.Join(asked, "|"); got != want {
					t.Errorf("the backend was asked\n%s, want\n%s", got, want)
				}
				if rec := s.Snapshot(t, a.Run()); rec.State != "completed" || rec.Snapshot.Text != "all" || len(events) != 2 {
					t.Errorf("got %s, %q, %d events", rec.State, rec.Snapshot.Text, len(events))
				}
			})
		})
	}
}
