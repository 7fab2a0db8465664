package redisstore_test

import (
	"os"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func TestMain(m *testing.M) {
	os.Exit(testkit.Main(m, func() error { return nil }))
}
