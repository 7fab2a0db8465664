package e2e

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// mcpSDK has the unmodified SDK of MCP, server and client.
var mcpSDK = npmFolder{source: "mcp"}

// TestMCPClientGoesOnThroughACutNetwork loses its connection in the middle of a
// call: it asks for the rest by the server's own id, and hears each progress
// once, then the result of the one call.
func TestMCPClientGoesOnThroughACutNetwork(t *testing.T) {
	t.Parallel()
	server := mcpSDK.run(t, "server.mjs")
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare("127.0.0.1:" + server.line(t))}})
	network := newCutter(t, g.URL(""))
	client := mcpSDK.run(t, "client.mjs", network.url())
	server.says(t, "called")
	server.goOn(t)
	client.says(t, "progress 1")
	network.cut()
	server.goOn(t)
	testkit.Eventually(t, "the client to come back", func() bool { return network.waiting() > 0 })
	network.restore()
	client.says(t, "progress 2")
	server.goOn(t)
	client.says(t, "progress 3")
	server.goOn(t)
	client.says(t, "counted")
}
