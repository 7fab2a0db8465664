package sdktest

import (
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestAISDKChatGoesOnAfterAReload loses the network in the middle of the
// answer and opens the chat anew, as useChat({ resume: true }) does. The SDK asks
// for the chat's stream, and has the whole message in the end, of one
// generation. Once that is over there is nothing to resume.
func TestAISDKChatGoesOnAfterAReload(t *testing.T) {
	eachVersion(t, func(t *testing.T, p *pair) {
		want := p.whole(t)
		network := testkit.NewCutter(t, p.gateway.URL(""))
		before := p.chat(t, network.URL())
		p.half(t, before)
		network.Cut()
		failed(t, before, "network error")

		after := p.chat(t, p.gateway.URL(""))
		after.Tell(t, "resume")
		after.Says(t, "half")
		p.server.Tell(t, "go")
		if got := ready(t, after); got != want {
			t.Errorf("got message %s after the reload, want %s", got, want)
		}
		p.record(t, "completed")
		after.Tell(t, "follow")
		p.server.Says(t, "GET") // and not one more "asked" before
		after.Says(t, "null")
		after.Tell(t, "resume")
		if got := nextTurn(t, after); got.Status != "ready" || len(got.Errors) > 0 || got.answer() != want {
			t.Errorf("with nothing to resume the chat is %+v, want it ready and unchanged", got)
		}
	})
}

// TestAISDKChatGoesOnInItsPage loses the network and resumes in the same page:
// the replay takes the place of the half that is shown. Version 5 would add it
// to the half.
func TestAISDKChatGoesOnInItsPage(t *testing.T) {
	t.Parallel()
	p := newPair(t, "7")
	want := p.whole(t)
	network := testkit.NewCutter(t, p.gateway.URL(""))
	client := p.chat(t, network.URL())
	p.half(t, client)
	network.Cut()
	failed(t, client, "network error")
	network.Restore()
	client.Tell(t, "resume")
	client.Says(t, "half")
	p.server.Tell(t, "go")
	if got := ready(t, client); got != want {
		t.Errorf("got message %s after the cut, want %s", got, want)
	}
}

// TestAISDKChatDoesNotNoticeACut with the fetch of the example, which every
// version can use.
func TestAISDKChatDoesNotNoticeACut(t *testing.T) {
	eachVersion(t, func(t *testing.T, p *pair) {
		want := p.whole(t)
		network := testkit.NewCutter(t, p.gateway.URL(""))
		client := p.chat(t, network.URL(), "", resumingFetch(t))
		p.half(t, client)
		network.Cut()
		testkit.Eventually(t, "the client to come back", func() bool { return network.Waiting() > 0 })
		network.Restore()
		p.server.Tell(t, "go")
		if got := ready(t, client); got != want {
			t.Errorf("got message %s after the cut, want %s", got, want)
		}
		if rec := p.record(t, "completed"); rec.Attempt != 1 {
			t.Errorf("got attempt %d, want 1", rec.Attempt)
		}
	})
}

// TestAISDKChatStops: stop() only closes the connection, which stops nothing;
// the cancel resource does.
func TestAISDKChatStops(t *testing.T) {
	eachVersion(t, func(t *testing.T, p *pair) {
		client := p.chat(t, p.gateway.URL(""))
		p.half(t, client)
		client.Tell(t, "stop")
		if got := nextTurn(t, client); got.Status != "ready" || len(got.Errors) > 0 || !got.Finished.IsAbort {
			t.Errorf("stopped chat is %+v, want ready and aborted", got)
		}
		if now := p.runs.Active(t, "c"); now.Status != "running" {
			t.Errorf("conversation is %s after stop(), want running", now.Status)
		}
		p.runs.Do(t, testkit.Ask{Method: http.MethodDelete, Path: "/api/chat/c/stream"}.With("Prefer", "wait=10")).Want(http.StatusOK)
		p.server.Says(t, "aborted")
		if rec := p.record(t, "cancelled"); rec.Outcome() != "cancelled_after_effect" {
			t.Errorf("got outcome %q, want cancelled_after_effect", rec.Outcome())
		}
	})
}

// TestAISDKChatSendsAfterStop takes the place of the answer that nobody reads
// any more.
func TestAISDKChatSendsAfterStop(t *testing.T) {
	eachVersion(t, func(t *testing.T, p *pair) {
		client := p.chat(t, p.gateway.URL(""))
		p.half(t, client)
		client.Tell(t, "stop")
		nextTurn(t, client)
		client.Tell(t, "send")
		for range 2 { // in one order or the other
			if line := p.server.Line(t); line != "asked" && line != "aborted" {
				t.Errorf("server says %q, want asked and aborted", line)
			}
		}
		client.Says(t, "half")
		p.server.Tell(t, "go")
		ready(t, client)
		first := testkit.Decode[struct{ Runs []testkit.Record }](t, p.runs.Do(t, testkit.Ask{Path: "/_runs?conversation_id=c&state=cancelled"}).Want(http.StatusOK).Body())
		if len(first.Runs) != 1 || first.Runs[0].Reason() != "superseded" {
			t.Errorf("got cancelled runs %+v, want one that was superseded", first.Runs)
		}
		p.record(t, "completed")
	})
}
