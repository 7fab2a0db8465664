package caddymodule

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// asCaddy makes the test binary behave like the caddy command, for what can
// only be tested in a process of its own: its end.
const asCaddy = "AGENT_RUNS_TEST_AS_CADDY"

func TestMain(m *testing.M) {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		return
	}
	caddy.RegisterModule(new(closing))
	os.Exit(m.Run())
}

// silence is logging that goes nowhere.
func silence() *caddy.Logging {
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		"default": {BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)}},
	}}
}

// fileStorage is a storage of the test's own.
func fileStorage(t *testing.T) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(map[string]string{"module": "file_system", "root": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
