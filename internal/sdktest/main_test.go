// Package sdktest lets unmodified clients and servers of other people talk
// through the gateway: the SDKs as they come from npm, around the built
// program.
package sdktest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// folders are all folders of scripts.
var folders = []*npm.Folder{
	a2aSDK,
	anthropic,
	chats,
	cohere,
	gemini,
	langGraph,
	mcpSDK,
	ollama,
	openAI,
	replicate,
}

func TestMain(m *testing.M) {
	os.Exit(testkit.Main(m, func() error {
		for _, f := range folders {
			f.Remove()
		}
		return nil
	}))
}

// caseScript loads an upstream script of a case.
func caseScript(t testing.TB, name string) testkit.Script {
	t.Helper()
	return testkit.LoadScript(t, filepath.Join("..", "e2e", "testdata", "cases", name, "upstream.jsonl"))
}
