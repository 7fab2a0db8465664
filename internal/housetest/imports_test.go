package housetest

import (
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/caddy-agent-runs/caddy-agent-runs"

// rooms are the arrows of ARCHITECTURE.md, checked over everything that a
// package needs, not only over what it imports itself. A name that ends in "/"
// covers all packages below it; "std" alone means the standard library.
var rooms = []struct {
	pkg   string
	only  []string // beside the standard library
	never []string
}{
	{pkg: "runregistry", only: []string{}},
	{pkg: "runregistry/embeddedstore", only: []string{module + "/runregistry", module + "/runregistry/embeddedstore/"}},
	{pkg: "runregistry/redisstore", never: []string{module + "/runregistry/embeddedstore", module + "/authz", module + "/proxy", module + "/proxy/", module + "/caddymodule", "github.com/caddyserver/"}},
	{pkg: "proxy/frame", only: []string{}},
	{pkg: "proxy/dialect", never: []string{module + "/runregistry", module + "/authz", module + "/proxy", module + "/caddymodule", "github.com/caddyserver/", "github.com/redis/"}},
	{pkg: "authz", never: []string{module + "/runregistry", module + "/proxy", module + "/caddymodule", "github.com/caddyserver/", "github.com/redis/"}},
	{pkg: "authz/keyset", only: []string{module + "/authz/keyset", "github.com/go-jose/go-jose/v4", "github.com/go-jose/go-jose/v4/"}},
	{pkg: "authz/jwt", never: []string{module + "/runregistry", module + "/proxy", module + "/caddymodule", "github.com/caddyserver/", "github.com/redis/"}},
	{pkg: "proxy", never: []string{module + "/caddymodule", module + "/runregistry/embeddedstore", module + "/runregistry/redisstore", module + "/internal/", "github.com/caddyserver/", "github.com/redis/"}},
	{pkg: "caddymodule", never: []string{module + "/internal/testkit", module + "/internal/e2e", module + "/runregistry/storetest", "testing"}},
	{pkg: "cmd/caddy", never: []string{module + "/internal/testkit", module + "/internal/e2e", module + "/runregistry/storetest", "testing"}},
}

// needs returns everything that pkg needs to be built.
func needs(t *testing.T, pkg string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+pkg)
	list.Dir = root
	var failed strings.Builder
	list.Stderr = &failed
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing what %s needs: %v\n%s", pkg, err, failed.String())
	}
	return strings.Fields(string(out))
}

// isStandard reports whether a package is of the standard library, whose paths
// have no dot in their first part.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// covers reports whether pattern names pkg.
func covers(pattern, pkg string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(pkg, pattern)
	}
	return pkg == pattern
}

func coveredByAny(patterns []string, pkg string) bool {
	for _, pattern := range patterns {
		if covers(pattern, pkg) {
			return true
		}
	}
	return false
}

func TestRoomsImportWhatTheArrowsAllow(t *testing.T) {
	for _, room := range rooms {
		self := path.Join(module, room.pkg)
		for _, dep := range needs(t, room.pkg) {
			switch {
			case dep == self:
			case coveredByAny(room.never, dep):
				t.Errorf("%s needs %s, which ARCHITECTURE.md forbids", room.pkg, dep)
			case room.only != nil && !isStandard(dep) && !coveredByAny(room.only, dep):
				t.Errorf("%s needs %s, want only the standard library and %v", room.pkg, dep, room.only)
			}
		}
	}
}

func TestArrowsAreToldApart(t *testing.T) {
	for _, c := range []struct {
		pattern, pkg string
		want         bool
	}{
		{module + "/proxy", module + "/proxy", true},
		{module + "/proxy", module + "/proxy/frame", false},
		{"github.com/redis/", "github.com/redis/go-redis/v9", true},
		{"testing", "testing/iotest", false},
	} {
		if got := covers(c.pattern, c.pkg); got != c.want {
			t.Errorf("%s covers %s: got %t, want %t", c.pattern, c.pkg, got, c.want)
		}
	}
}
