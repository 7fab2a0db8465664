package embeddedstore_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/storetest"
)

func open(t *testing.T) runregistry.Store {
	return openWith(t, embeddedstore.Options{})
}

func openWith(t *testing.T, o embeddedstore.Options) *embeddedstore.Store {
	t.Helper()
	s := embeddedstore.New(o)
	t.Cleanup(s.Close)
	return s
}

func TestStoreKeepsItsPromises(t *testing.T) { storetest.Run(t, open) }

func TestStoreKeepsItsPromisesOverTime(t *testing.T) { storetest.RunTimed(t, open) }

func TestStoreKeepsItsPromisesWhenFull(t *testing.T) {
	const memory = 1 << 20
	storetest.RunBounded(t, memory, func(t *testing.T) runregistry.Store {
		return openWith(t, embeddedstore.Options{Memory: memory})
	})
}
