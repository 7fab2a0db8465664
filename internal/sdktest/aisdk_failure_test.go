package sdktest

import (
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestAISDKChatShowsWhatWentWrong: an answer that broke is an error of the
// chat, whoever broke it, and never half an answer that looks whole.
func TestAISDKChatShowsWhatWentWrong(t *testing.T) {
	for _, tt := range []struct{ command, shown, reason string }{
		{"die", "The run failed before its answer was complete. (upstream_truncated)", "upstream_truncated"},
		{"fail", "An error occurred.", "upstream_error"}, // the server's own words
	} {
		t.Run(tt.command, func(t *testing.T) {
			eachVersion(t, func(t *testing.T, p *pair) {
				client := p.chat(t, p.gateway.URL(""))
				p.half(t, client)
				p.server.Tell(t, tt.command)
				failed(t, client, tt.shown)
				if rec := p.record(t, "failed"); rec.Reason() != tt.reason {
					t.Errorf("got reason %q, want %q", rec.Reason(), tt.reason)
				}
			})
		})
	}
}

// TestAISDKChatSeesTheStopOfAnotherTab as the abort part that the server would
// have sent.
func TestAISDKChatSeesTheStopOfAnotherTab(t *testing.T) {
	eachVersion(t, func(t *testing.T, p *pair) {
		client := p.chat(t, p.gateway.URL(""))
		p.half(t, client)
		tab := p.chat(t, p.gateway.URL(""))
		tab.Tell(t, "follow")
		tab.Says(t, "reads")
		p.runs.Stop(t, *p.runs.Active(t, "c").RunID)
		if got := nextTurn(t, tab); got.Types[len(got.Types)-1] != "abort" || slices.Contains(got.Types, "finish") {
			t.Errorf("got parts %q, want an abort at the end and no finish", got.Types)
		}
		if got := nextTurn(t, client); got.Status != "ready" || len(got.Errors) > 0 {
			t.Errorf("stopped chat is %+v, want ready", got)
		}
	})
}

// TestAISDKChatIsToldThatFramesAreGone: what cannot be replayed from its
// beginning is an error, and not an answer without its beginning.
func TestAISDKChatIsToldThatFramesAreGone(t *testing.T) {
	eachVersion(t, func(t *testing.T, p *pair) {
		p.chat(t, p.gateway.URL("")).Tell(t, "send")
		testkit.Eventually(t, "the first frames to be gone", func() bool {
			now := p.runs.Active(t, "c")
			return now.Run != nil && now.Run.Frames.FirstSeq != nil && *now.Run.Frames.FirstSeq > 1
		})
		late := p.chat(t, p.gateway.URL(""))
		late.Tell(t, "resume")
		failed(t, late, "The frames of this run are no longer stored; its snapshot is.")
	}, "limits {\nrun_frames 6\n}")
}

// TestAISDKChatIsToldThatItsGatewayDied by another one, once the lease of the
// run has expired.
func TestAISDKChatIsToldThatItsGatewayDied(t *testing.T) {
	t.Parallel()
	p := &pair{version: "7", server: chats.Run(t, "aisdk.server.mjs", "7")}
	setup := testkit.Setup{
		Global: "store redis " + testkit.StartRedis(t).URL() + "\nlease 2s",
		Sites:  map[string]string{"": testkit.Site("127.0.0.1:"+p.server.Line(t), "start POST /api/chat")},
	}
	owner, other := testkit.Start(t, setup), testkit.Start(t, setup)
	p.runs = other.Client("").As("ada")
	p.half(t, p.chat(t, owner.URL("")))
	client := p.chat(t, other.URL(""))
	client.Tell(t, "resume")
	client.Says(t, "half")
	owner.Crash()
	failed(t, client, "The outcome of the run is unknown. (owner_lost)")
	p.record(t, "uncertain")
}
