package embeddedstore_test

import (
	"path/filepath"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/storetest"
)

// openDurable opens a store in a directory of its own, which does not exist
// before.
func openDurable(t *testing.T) runregistry.Store {
	return openWith(t, embeddedstore.Options{Memory: 16 << 20, Path: filepath.Join(t.TempDir(), "runs")})
}

// Every test runs in a bubble: files are no reason for its clock to move, and
// nobody's deadline passes while a disk syncs.
func TestDurableStoreKeepsItsPromisesOverTime(t *testing.T) { storetest.RunTimed(t, openDurable) }

func TestDurableStoreKeepsItsPromisesWhenFull(t *testing.T) {
	const memory = 1 << 20
	storetest.RunBounded(t, memory, func(t *testing.T) runregistry.Store {
		return openWith(t, embeddedstore.Options{Memory: memory, Path: t.TempDir()})
	})
}
