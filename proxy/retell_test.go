package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// workflow is a backend of Dify whose connections break while its workflow goes
// on.
type workflow struct {
	events []string // of the run, as JSON
	breaks []int    // events of each stream before it breaks; none: it goes on
	missed int      // events that are made while nobody listens, each time
	bus    string   // how events reach a stream that is joined: see below
	refuse int      // status of joins; 0 serves them

	mu     sync.Mutex // guards everything below
	made   int
	starts int
	joins  []string // addresses
}

const (
	busLive    = "those from then on" // pubsub
	busAll     = "all of them"        // streams
	busAllBare = "all of them, with ids, without a state"
)

func (b *workflow) serve(_ int, w http.ResponseWriter, r *http.Request) error {
	b.mu.Lock()
	stream, from := len(b.joins), 0
	if r.Method == http.MethodGet {
		stream++
		b.joins = append(b.joins, r.URL.RequestURI())
		from = b.made
	} else {
		b.starts++
	}
	joined, refuse := r.Method == http.MethodGet, b.refuse
	b.mu.Unlock()
	if joined && refuse != 0 {
		return answers(refuse, jsonType, `{"code":"not_found"}`)(0, w, r)
	}
	sse(w)
	if joined {
		from = b.begin(w, from)
	}
	for n := 0; from < len(b.events); from, n = from+1, n+1 {
		if stream < len(b.breaks) && n == b.breaks[stream] {
			b.mu.Lock()
			b.made = min(len(b.events), max(b.made, from+b.missed))
			b.mu.Unlock()
			hangUp()
		}
		if err := pause(r, 10*time.Millisecond); err != nil {
			return err
		}
		said := datum(b.events[from])
		if b.bus == busAllBare {
			said = "id: 17-" + itoa(from) + "\n" + said
		}
		if err := say(w, said); err != nil {
			return err
		}
		b.mu.Lock()
		b.made = max(b.made, from+1)
		b.mu.Unlock()
	}
	return nil
}

// begin says what a joined stream begins with, and returns which event follows.
func (b *workflow) begin(w http.ResponseWriter, made int) int {
	if made == len(b.events) && gjson.Get(b.events[made-1], "event").Str == "workflow_finished" {
		return made - 1
	}
	said := "event: ping\n\n"
	if b.bus != busAllBare {
		for _, e := range state(b.events[:made]) {
			said += datum(e)
		}
	}
	_ = say(w, said) // whoever left is noticed later
	if b.bus == busLive {
		return made
	}
	return 0
}

// state is what Dify keeps of the events of a run: its nodes, the answer as it
// was saved, and that it waits.
func state(events []string) (all []string) {
	answer := ""
	for _, e := range events {
		doc := gjson.Parse(e)
		kind, id := doc.Get("event").Str, doc.Get("data.id").Str
		of := func(kind, data string) string {
			return fmt.Sprintf(`{"event":%q,"task_id":"wr-1","workflow_run_id":"wr-1","data":{%s},"conversation_id":"c-1"}`, kind, data)
		}
		switch kind {
		case "workflow_started":
			all = append(all, of(kind, `"id":"wr-1","reason":"initial"`), `{"event":"message_replace","task_id":"wr-1","answer":"","reason":""}`)
		case "node_started", "node_finished":
			all = append(all, of(kind, fmt.Sprintf(`"id":%q,"node_type":%q,"title":%q,"status":"succeeded","inputs":null,"outputs":null`, id, doc.Get("data.node_type").Str, doc.Get("data.title").Str)))
		case "message":
			answer += doc.Get("answer").Str
		case "workflow_paused":
			all = append(all, fmt.Sprintf(`{"event":"message_replace","task_id":"wr-1","answer":%q,"reason":""}`, answer), e)
		}
	}
	return all
}

const difyIDs = `"conversation_id":"c-1","message_id":"m-1","task_id":"t-1",`

func flow(kind, data string) string {
	return `{"event":"` + kind + `",` + difyIDs + `"workflow_run_id":"wr-1","data":{` + data + `}}`
}

func nodeRuns(id, kind, outputs string) (started, finished string) {
	data := `"id":"` + id + `","node_type":"` + kind + `","title":"T ` + id + `"`
	return flow("node_started", data), flow("node_finished", data+`,"status":"succeeded","outputs":`+outputs)
}

func said(text string) string { return `{"event":"message",` + difyIDs + `"answer":"` + text + `"}` }

// chatflow is a run of a chatflow, which says the same twice.
func chatflow() []string {
	startBegins, startEnds := nodeRuns("e-start", "start", "{}")
	toolBegins, toolEnds := nodeRuns("e-tool", "tool", `{"text":"sent"}`)
	llmBegins, llmEnds := nodeRuns("e-llm", "llm", `{"text":"a b a c"}`)
	return []string{
		flow("workflow_started", `"id":"wr-1"`), startBegins, startEnds, toolBegins, toolEnds, llmBegins,
		said("a "), said("b "), said("a "), said("c"), llmEnds,
		`{"event":"message_end",` + difyIDs + `"metadata":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}`,
		flow("workflow_finished", `"status":"succeeded","outputs":{"answer":"a b a c","files":[]}`),
	}
}

// plainFlow is a run of a workflow with these outputs.
func plainFlow(status, outputs string) []string {
	begins, ends := nodeRuns("e-llm", "llm", `{"text":"one two"}`)
	return []string{
		flow("workflow_started", `"id":"wr-1"`), begins,
		flow("text_chunk", `"text":"one "`), flow("text_chunk", `"text":"two"`), ends,
		flow("workflow_finished", `"status":"`+status+`","outputs":`+outputs),
	}
}

var (
	askChatflow = testkit.Ask{Path: "/v1/chat-messages", Body: `{"query":"hi","user":"u 1","response_mode":"streaming"}`}.With("Content-Type", "application/json")
	askWorkflow = testkit.Ask{Path: "/v1/workflows/run", Body: `{"inputs":{},"user":"u 1","response_mode":"streaming"}`}.With("Content-Type", "application/json")
)

const joinsWorkflow = "/v1/workflow/wr-1/events?user=u+1&include_state_snapshot=true"

// onceEach fails the test if an event is there twice.
func onceEach(t *testing.T, events []testkit.Event) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range events {
		doc := gjson.Parse(e.Data)
		name := doc.Get("event").Str + " " + doc.Get("data.id").Str
		if doc.Get("event").Str == "message" || doc.Get("event").Str == "text_chunk" {
			continue
		}
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
	}
}

// TestAWorkflowIsJoinedAgain whose connection breaks after any of its frames,
// however much is missed and however Dify hands on what follows: nothing is there
// twice, the whole text is known, and nothing is generated again.
func TestAWorkflowIsJoinedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		ask    testkit.Ask
		events []string
		text   string
	}{
		"chatflow": {askChatflow, chatflow(), "a b a c"},
		"workflow": {askWorkflow, plainFlow("succeeded", `{"result":"one two"}`), "one two"},
	} {
		for _, bus := range []string{busLive, busAll, busAllBare} {
			for breaks := 1; breaks < len(c.events); breaks++ {
				for _, missed := range []int{0, 1, 4, 99} {
					t.Run(fmt.Sprintf("%s, %s/%d of %d, %d missed", name, bus, breaks, len(c.events), missed), func(t *testing.T) {
						inBubble(t, func(t *testing.T) {
							b := &workflow{events: c.events, breaks: []int{breaks}, missed: missed, bus: bus}
							s := newSite(t, b.serve)
							a := s.Do(t, c.ask)
							events := a.Rest()
							testkit.CheckIDs(t, a.Run(), 1, events)
							onceEach(t, events)
							whole := bus != busLive && breaks+missed < len(c.events)
							if whole && datas(events) != strings.Join(c.events, "|") {
								t.Errorf("got\n%s, want\n%s", datas(events), strings.Join(c.events, "|"))
							}
							if got := events[len(events)-1].Data; got != c.events[len(c.events)-1] {
								t.Errorf("the last event is %s", got)
							}
							rec := s.Snapshot(t, a.Run())
							if rec.State != "completed" || rec.Upstream.Reattached != 1 || rec.Snapshot.Text != c.text || !rec.Snapshot.Complete {
								t.Errorf("got %s, reattached %d times, text %q, complete %v", rec.State, rec.Upstream.Reattached, rec.Snapshot.Text, rec.Snapshot.Complete)
							}
							if b.starts != 1 || !slices.Equal(b.joins, []string{joinsWorkflow}) {
								t.Errorf("got %d generations, joined at %q", b.starts, b.joins)
							}
						})
					})
				}
			}
		}
	}
}

// TestAToolThatRanMeanwhileIsKnown from the state, without its result; if all
// events follow, with it.
func TestAToolThatRanMeanwhileIsKnown(t *testing.T) {
	for bus, want := range map[string]string{busLive: "", busAll: `{"text":"sent"}`} {
		t.Run(bus, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &workflow{events: chatflow(), breaks: []int{4}, missed: 2, bus: bus}
				s := newSite(t, b.serve)
				run := s.ran(t, askChatflow)
				receipts := s.Snapshot(t, run).Snapshot.ToolReceipts
				if len(receipts) != 1 || receipts[0].Name != "T e-tool" || receipts[0].Status != "succeeded" {
					t.Fatalf("got the receipts %v", receipts)
				}
				if got := receipts[0].Result; got != want {
					t.Errorf("got the result %v, want %q", got, want)
				}
			})
		})
	}
}

// TestAnEventThatFollowsItsStateCountsAlone: it was saved before it was handed
// on, and says more.
func TestAnEventThatFollowsItsStateCountsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		events := chatflow()
		s := newSite(t, inTurn(breaks(datum(events[0]), datum(events[3])), streams(
			datum(state(events[:1])[0]), datum(state(events[3:5])[0]), datum(state(events[3:5])[1]), datum(events[4]), datum(events[12]), "",
		)))
		a := s.Do(t, askChatflow)
		got := a.Rest()
		if want := strings.Join([]string{events[0], events[3], events[4], events[12]}, "|"); datas(got) != want {
			t.Errorf("got\n%s, want\n%s", datas(got), want)
		}
	})
}

// TestAnEventThatFollowsLaterIsKnown, when its state was told before.
func TestAnEventThatFollowsLaterIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		events := chatflow()
		told := state(events[:2])
		s := newSite(t, inTurn(breaks(datum(events[0])), streams(
			datum(told[0]), datum(told[2]), datum(events[6]), datum(events[1]), datum(events[2]), datum(events[2]), datum(events[12]),
		)))
		got := s.Do(t, askChatflow).Rest()
		if want := strings.Join([]string{events[0], told[2], events[6], events[2], events[12]}, "|"); datas(got) != want {
			t.Errorf("got\n%s, want\n%s", datas(got), want)
		}
	})
}

// TestWhatTheLogAloneHasIsPassedOver, when all events follow: the state was told
// in it.
func TestWhatTheLogAloneHasIsPassedOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := chatflow()
		told := state(e[:4])
		s := newSite(t, inTurn(
			breaks(datum(e[0]), datum(e[1]), datum(e[2])),
			breaks(datum(told[0]), datum(told[4]), datum(e[6]), datum(e[7])),
			streams(datum(e[0]), datum(e[1]), datum(e[2]), datum(e[3]), datum(e[6]), datum(e[7]), datum(e[8]), datum(e[12])),
		))
		got := s.Do(t, askChatflow).Rest()
		if want := strings.Join([]string{e[0], e[1], e[2], told[4], e[6], e[7], e[8], e[12]}, "|"); datas(got) != want {
			t.Errorf("got\n%s, want\n%s", datas(got), want)
		}
	})
}

// TestAStateIsToldWhileNothingFollows: with the next sign of life.
func TestAStateIsToldWhileNothingFollows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		events := chatflow()
		s := newSite(t, inTurn(breaks(datum(events[0])), func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			say(w, "event: ping\n\n"+datum(state(events[:1])[0])+datum(state(events[:2])[2])) //nolint:errcheck // the test reads what arrived
			for range 6 {
				if err := pause(r, 10*time.Second); err != nil {
					return err
				}
				say(w, "event: ping\n\n") //nolint:errcheck // likewise
			}
			return say(w, datum(events[12]))
		}))
		began := time.Now()
		a := s.Do(t, askChatflow)
		if got := a.Take(2); !strings.Contains(got[1].Data, "e-start") || time.Since(began) > 11*time.Second {
			t.Errorf("got %s after %v", datas(got), time.Since(began))
		}
		a.Rest()
	})
}

// TestAWorkflowIsJoinedAgainAndAgain, and breaks before there is anything new,
// too.
func TestAWorkflowIsJoinedAgainAndAgain(t *testing.T) {
	for _, bus := range []string{busLive, busAll, busAllBare} {
		t.Run(bus, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &workflow{events: chatflow(), breaks: []int{3, 0, 2, 9}, missed: 1, bus: bus}
				s := newSite(t, b.serve)
				a := s.Do(t, askChatflow)
				events := a.Rest()
				testkit.CheckIDs(t, a.Run(), 1, events)
				onceEach(t, events)
				if bus != busLive && datas(events) != strings.Join(b.events, "|") {
					t.Errorf("got\n%s, want\n%s", datas(events), strings.Join(b.events, "|"))
				}
				rec := s.Snapshot(t, a.Run())
				if rec.State != "completed" || rec.Upstream.Reattached != len(b.joins) || rec.Snapshot.Text != "a b a c" || !rec.Snapshot.Complete || b.starts != 1 {
					t.Errorf("got %s, reattached %d times, %q, complete %v", rec.State, rec.Upstream.Reattached, rec.Snapshot.Text, rec.Snapshot.Complete)
				}
			})
		})
	}
}
