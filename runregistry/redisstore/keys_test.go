package redisstore

import (
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// hostile is what others choose, with all that means something in a key, a
// pattern, a command or a script of Redis.
const hostile = "secret:{p01}*?[a]\r\nDEL x\x00'\"]]"

// all are all keys and channels of one partition.
func all(k keyspace, at runregistry.Partition) map[string]string {
	id := runregistry.NewRunID(at)
	sub := runregistry.Subject{Realm: "{r}", Tenant: hostile, Issuer: "i", Sub: "secret}"}
	scope := runregistry.SubjectScope(sub)
	return map[string]string{
		"run": k.run(id), "frames": k.frames(id), "readers": k.readers(id), "channel": k.channel(id), "leases": k.leases(at), "mark": k.mark(at, "I"),
		"op": k.op(at, "t"), "active": k.active(at, sub), "guests": k.guests(at, sub), "list": k.list(at, sub), "listed": k.listed(at, sub),
		"claim": k.claim(at, sub, hostile, runregistry.Digest{1}), "echoes": k.echoes(at, sub, hostile, runregistry.Digest{1}),
		"name": k.name(at, scope, hostile), "holders": k.holders(at, "d"), "dialogue": k.dialogue(at, "d"), "dialogued": k.dialogued(at, "d"),
		"upstream": k.upstream(at, scope, hostile),
	}
}

func TestKeysOfAPartitionShareTheirHashTag(t *testing.T) {
	tag := regexp.MustCompile(`^ag:\{p07\}:[a-z]+(:[A-Za-z0-9_-]+)?$`)
	seen := make(map[string]string)
	for name, key := range all(keyspace{"ag:"}, 7) {
		if !tag.MatchString(key) {
			t.Errorf("%s: got key %s, want one like %s", name, key, tag)
		}
		if strings.Contains(key, "secret") {
			t.Errorf("%s: got a name in clear in %s", name, key)
		}
		if seen[key] != "" {
			t.Errorf("got key %s for %s and %s", key, name, seen[key])
		}
		seen[key] = name
	}
}

func TestHashedPartsDoNotCollide(t *testing.T) {
	seen := make(map[string]bool)
	for _, parts := range [][]string{{""}, {"", ""}, {"a", "b"}, {"ab"}, {"a", "", "b"}, {"1:a", "b"}, {"a1:b"}, {"b", "a"}} {
		h := hashed(parts...)
		if len(h) != 22 || seen[h] {
			t.Errorf("%q: got %s, want 22 characters of its own", parts, h)
		}
		seen[h] = true
	}
}
