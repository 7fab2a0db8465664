package sdktest

import (
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
	server := mcpSDK.Run(t, "server.mjs")
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare("127.0.0.1:" + server.Line(t))}})
	network := testkit.NewCutter(t, g.URL(""))
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
