package sdktest

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// TestSDKsRetryWithoutASecondRun cuts the connection of an SDK before the
// headers. It tries again by itself, with a key and without one, and gets the
// whole answer of the run that was paid for.
func TestSDKsRetryWithoutASecondRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sdk              *npm.Folder
		call, path, from string
	}{
		{openAI, "chat.stream", "/v1/chat/completions", "openai-chat/text-basic.sse"},
		{openAI, "responses.stream", "/v1/responses", "openai-responses/text-and-tool-1.sse"},
		{anthropic, "messages.stream", "/v1/messages", "anthropic-messages/text-basic.sse"},
	} {
		for name, header := range map[string]map[string]string{"without a key": {}, "with a key": {"Idempotency-Key": "k-1"}} {
			t.Run(c.call+" "+name, func(t *testing.T) {
				t.Parallel()
				u := testkit.NewUpstream(t)
				g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(u.Addr())}})
				gate := make(chan struct{})
				whole := inPieces(eventStream, testkit.Recording(t, c.from), 700)
				stage := u.Stage(append(testkit.Script{testkit.Gate(gate)}, whole...))
				network, s := testkit.NewCutter(t, g.URL("")), start(t, c.sdk)
				header[testkit.StageHeader] = stage.Name()
				s.begin(t, job{Call: c.call, Base: network.URL(), Header: header, Retries: 2})
				if tries := stage.Call(t, 1).Header.Get("X-Stainless-Retry-Count"); tries != "0" {
					t.Errorf("the first try counts %q tries before it, want 0", tries)
				}
				network.Cut()
				testkit.Eventually(t, "the gateway to notice and the SDK to try again", func() bool {
					return len(g.Log.Accesses(c.path)) == 1 && network.Waiting() > 0
				})
				network.Restore()
				close(gate)
				got := npm.Result[outcome](t, s.Script)
				header[testkit.StageHeader] = u.Stage(whole).Name()
				direct := s.do(t, job{Call: c.call, Base: u.URL(), Header: header})
				sameOutcome(t, c.call, got, direct)
				if len(got.Answers) != 1 || got.Answers[0].Replayed != "true" || stage.Starts() != 1 {
					t.Errorf("got answers %+v after %d upstream calls, want one that is replayed", got.Answers, stage.Starts())
				}
			})
		}
	}
}
