package caddymodule

import (
	"cmp"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
)

const (
	storeEmbedded = "embedded"
	storeMemory   = "memory"
)

// checkPath looks at what stands in the configuration. The directory may be on
// another machine than this.
func (s Store) checkPath() error {
	if s.Path != "" && s.Kind != "" && s.Kind != storeEmbedded {
		return clash("store.path", "belongs to store embedded")
	}
	return nil
}

// resolvePath replaces placeholders in the path. It touches nothing.
func (s *Store) resolvePath() error {
	if s.Path == "" {
		return nil
	}
	path, err := replaced(s.Path, func(text string) string { return text })
	if err != nil {
		return clash("store.path", "%v", err)
	}
	if s.dir, err = filepath.Abs(path); err != nil {
		return clash("store.path", "%v", err)
	}
	return nil
}

// directory is where the embedded store keeps runs, and nothing for other
// stores.
func (s Store) directory() string {
	if s.Kind != "" && s.Kind != storeEmbedded {
		return ""
	}
	return cmp.Or(s.dir, filepath.Join(caddy.AppDataDir(), "agent_runs"))
}
