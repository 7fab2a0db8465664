package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/faultstore"
)

// traced opens a site whose spans are kept.
func traced(t *testing.T, b backend, change ...configure) (*site, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	return setup{tracer: provider.Tracer("test"), config: change}.open(t, b), spans
}

// named returns the spans of one name.
func named(all tracetest.SpanStubs, name string) tracetest.SpanStubs {
	var found tracetest.SpanStubs
	for _, s := range all {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func attr(s tracetest.SpanStub, key string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// canaries are texts that belong to people: none may leave in a span or a line.
var canaries = []string{"canary-prompt", "canary-answer", "canary-key", "canary-token", "canary-cookie", "user-a"}

// secretChat is a start that is full of them.
func secretChat() testkit.Ask {
	return testkit.Chat("conv-1", "canary-prompt").Key("canary-key").With("Authorization", "Bearer canary-token").With("Cookie", "sid=canary-cookie")
}

// TestARunItsReadersAndItsStopAreSpans, linked and not nested: a run outlives
// the requests that concern it.
func TestARunItsReadersAndItsStopAreSpans(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		parents := make(chan string, 1)
		s, spans := traced(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			parents <- r.Header.Get("Traceparent")
			return holds(chatFrame("canary-answer"), chatFrame("b"))(n, w, r)
		}, openaiChat)
		started := s.Do(t, secretChat())
		started.Take(2)
		run := started.Run()
		reader := s.Resume(t, run, testkit.Cursor(run, 1))
		reader.Take(1)
		s.Stop(t, run)
		started.Rest()
		reader.Rest()
		synctest.Wait()
		all := spans.GetSpans()
		runs, reads, stops := named(all, "agent_run"), named(all, "agent_run.read"), named(all, "agent_run.stop")
		if len(runs) != 1 || len(reads) != 2 || len(stops) != 1 {
			t.Fatalf("got %d runs, %d readers and %d stops, want 1, 2 and 1", len(runs), len(reads), len(stops))
		}
		if attr(runs[0], "agent_run.id").AsString() != run || attr(runs[0], "agent_run.state").AsString() != "cancelled" || attr(runs[0], "gen_ai.conversation.id").AsString() != "conv-1" {
			t.Errorf("got %v", runs[0].Attributes)
		}
		if runs[0].Parent.IsValid() {
			t.Error("the run is a child of a request")
		}
		for _, child := range append(reads, stops...) {
			if len(child.Links) != 1 || child.Links[0].SpanContext.SpanID() != runs[0].SpanContext.SpanID() {
				t.Errorf("%s is not linked to its run: %v", child.Name, child.Links)
			}
		}
		if got := <-parents; !strings.Contains(got, runs[0].SpanContext.TraceID().String()) {
			t.Errorf("upstream got traceparent %q, want the run's", got)
		}
		for _, r := range reads {
			if attr(r, "agent_run.cursor.requested").AsInt64() == 1 && (attr(r, "agent_run.cursor.accepted").AsInt64() != 3 || attr(r, "agent_run.replayed_frames").AsInt64() != 1 || attr(r, "agent_run.connection_id").AsString() == "") {
				t.Errorf("got %v", r.Attributes)
			}
		}
		noCanaries(t, "a span", fmt.Sprintf("%+v", all))
	})
}

func noCanaries(t *testing.T, where, text string) {
	t.Helper()
	for _, c := range canaries {
		if strings.Contains(text, c) {
			t.Errorf("%s tells %s", where, c)
		}
	}
}

// TestTheSpanOfAFailedRunIsAnError with its reason, and tells usage and model
// when upstream did.
func TestTheSpanOfAFailedRunIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		usage := datum(`{"id":"chatcmpl-1","model":"m-1","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34}}`)
		s, spans := traced(t, inTurn(breaks(chatFrame("a")), streams(chatFrame("a"), finish("stop"), usage, chatDone)), openaiChat)
		s.ran(t, startChat())
		s.ran(t, startChat())
		runs := named(spans.GetSpans(), "agent_run")
		if len(runs) != 2 || runs[0].Status.Code != codes.Error || runs[0].Status.Description != "upstream_truncated" || runs[1].Status.Code == codes.Error {
			t.Fatalf("got %+v", runs)
		}
		if attr(runs[1], "gen_ai.usage.input_tokens").AsInt64() != 12 || attr(runs[1], "gen_ai.usage.output_tokens").AsInt64() != 34 || attr(runs[1], "gen_ai.response.id").AsString() != "chatcmpl-1" {
			t.Errorf("got %v", runs[1].Attributes)
		}
	})
}

// TestNoSpanIsLeftOpen by a run that does not begin.
func TestNoSpanIsLeftOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, spans := traced(t, streams(data(1)...), generic)
		s.engine.Drain()
		s.Do(t, startChat()).Want(http.StatusServiceUnavailable)
		s.Do(t, testkit.Ask{Path: "/_runs/run_x/events"}).Want(http.StatusNotFound)
		if got := spans.GetSpans(); len(got) != 0 {
			t.Errorf("got %d spans of requests that did nothing", len(got))
		}
	})
}

// TestTheSpanOfARunThatWasNotDispatchedEnds too.
func TestTheSpanOfARunThatWasNotDispatchedEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
		var faults *faultstore.Store
		s := setup{tracer: tracer, store: func(inner runregistry.Store) runregistry.Store {
			faults = faultstore.Wrap(inner)
			return faults
		}}.open(t, streams(data(1)...))
		faults.Plan(faultstore.Intend, 1, faultstore.Fail())
		unavailable(t, s.Do(t, startChat()))
		if got := named(spans.GetSpans(), "agent_run"); len(got) != 1 {
			t.Errorf("got %d spans of runs that ended, want 1", len(got))
		}
	})
}

// TestOneLinePerRun says how it ended: with ids and numbers, and nothing of
// what was said.
func TestOneLinePerRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		usage := datum(`{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34}}`)
		s := newSite(t, inTurn(streams(chatFrame("canary-answer"), finish("stop"), usage, chatDone), panics(chatFrame("canary-answer"))), openaiChat)
		run := s.ran(t, secretChat())
		s.ran(t, secretChat().Key("canary-key-2"))
		var ended []string
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, `"msg":"run ended"`) {
				ended = append(ended, line)
			}
		}
		if len(ended) != 2 {
			t.Fatalf("got %d lines, want one per run: %s", len(ended), s.log)
		}
		for _, want := range []string{`"run_id":"` + run, `"conversation_id":"conv-1"`, `"state":"completed"`, `"frames":4`, `"dialect":"openai-chat"`, `"model":"m"`, `"effect":"possible"`, `"upstream_status":200`, `"input_tokens":12`, `"output_tokens":34`, `"subject":"`} {
			if !strings.Contains(ended[0], want) {
				t.Errorf("the line lacks %s: %s", want, ended[0])
			}
		}
		noCanaries(t, "the log", s.log.String())
	})
}
