package sdktest

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// mcpSDK has the unmodified SDK of MCP, server and client.
var mcpSDK = npm.NewFolder("mcp")

// TestMCPClientGoesOnThroughACutNetwork loses its connection in the middle of a
// call: it asks for the rest by the server's own id, and hears each progress
// once, then the result of the one call.
func TestMCPClientGoesOnThroughACutNetwork(t *testing.T) {
	t.Parallel()
	server := serve(t, mcpSDK, "Authorization", "Bearer mcp-test")
	network := testkit.NewCutter(t, server.g.URL(""))
	client := mcpSDK.Run(t, "client.mjs", network.URL())
	server.Says(t, "called")
	server.Tell(t, "")
	client.Says(t, "progress 1")
	network.Cut()
	server.Tell(t, "")
	testkit.Eventually(t, "the client to come back", func() bool { return network.Waiting() > 0 })
	network.Restore()
	client.Says(t, "progress 2")
	server.Tell(t, "")
	client.Says(t, "progress 3")
	server.Tell(t, "")
	client.Says(t, "counted")
	server.Says(t, "answered") // and heard of no second connection
}

// TestMCPClientGoesOnWithTheCallOfAnother: a client that died left the name of
// its last frame, from which another one hears the rest.
func TestMCPClientGoesOnWithTheCallOfAnother(t *testing.T) {
	t.Parallel()
	server := serve(t, mcpSDK, "Authorization", "Bearer mcp-test")
	client := mcpSDK.Run(t, "client.mjs", server.g.URL(""))
	server.Says(t, "called")
	server.Tell(t, "")
	client.Says(t, "progress 1")
	client.Tell(t, "where")
	where := strings.Fields(client.Line(t))
	client.Kill(t)
	server.Tell(t, "")
	other := mcpSDK.Run(t, "client.mjs", append([]string{server.g.URL("")}, where...)...)
	other.Says(t, "progress 2")
	server.step(t, 2)
	other.Says(t, "progress 3", "counted")
	server.Says(t, "answered") // and heard of no second connection
	if rec := server.over(t); rec.State != "completed" || rec.Snapshot.Text != "counted" {
		t.Errorf("got %s, %+v", rec.State, rec.Snapshot)
	}
}

// TestMCPClientGivesACallUp: its notification is a Stop, and the tool hears of
// it. A Stop of ours is one for the tool, too, and the client hears of that.
func TestMCPClientGivesACallUp(t *testing.T) {
	t.Parallel()
	for how, raised := range map[string]string{"abort": "raised MCP error -32001: enough", "": "raised MCP error -32603: The run was stopped."} {
		t.Run(raised, func(t *testing.T) {
			t.Parallel()
			server := serve(t, mcpSDK, "Authorization", "Bearer mcp-test")
			client := mcpSDK.Run(t, "client.mjs", server.g.URL(""))
			server.Says(t, "called")
			server.Tell(t, "")
			client.Says(t, "progress 1")
			if how != "" {
				client.Tell(t, how)
			} else {
				server.back().Stop(t, server.record(t).RunID)
			}
			client.Says(t, raised)
			server.Says(t, "aborted")
			if rec := server.over(t); rec.State != "cancelled" {
				t.Errorf("got %s, want cancelled", rec.State)
			}
		})
	}
}

// TestMCPClientHearsOfADeadServer, which answers nothing any more: the client
// need not wait until it loses its patience.
func TestMCPClientHearsOfADeadServer(t *testing.T) {
	t.Parallel()
	server := serve(t, mcpSDK, "Authorization", "Bearer mcp-test", "forgetful")
	client := mcpSDK.Run(t, "client.mjs", server.g.URL(""))
	server.Says(t, "called")
	server.Tell(t, "")
	client.Says(t, "progress 1")
	server.Kill(t)
	client.Says(t, "raised MCP error -32603: The run failed before its answer was complete. (upstream_truncated)")
	if rec := server.over(t); rec.State != "failed" {
		t.Errorf("got %s, want failed", rec.State)
	}
}
