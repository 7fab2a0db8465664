package redisstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// The password of the Sentinels is read again for every connection to one of
// them, and only they are told it: the server has another.
func TestRotatedPasswordOfSentinelsIsUsedWithoutARestart(t *testing.T) {
	for _, user := range []string{"", "watcher"} {
		t.Run("user "+user, func(t *testing.T) {
			sentinels := testkit.StartRedisSentinel(t)
			sentinels.Master.Do("CONFIG", "SET", "requirepass", "data")
			sentinels.Master.Password = "data"
			file := filepath.Join(t.TempDir(), "password")
			settings := redisstore.Settings{Sentinel: "mymaster", SentinelUser: user, SentinelPasswordFile: file}
			var urls []string
			for _, addr := range sentinels.Addrs() {
				urls = append(urls, "redis://:data@"+addr)
			}
			require := func(password string) {
				for _, r := range sentinels.Sentinels {
					r.Do("ACL", "SETUSER", "watcher", "reset", "on", ">"+password, "~*", "&*", "+@all")
					r.Do("ACL", "SETUSER", "default", "resetpass", ">"+password)
					r.Password = password
					r.Do("CLIENT", "KILL", "TYPE", "pubsub")
					r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				}
				sentinels.Master.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
			rotate := func(password string) {
				if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			require("first")
			rotate("first")
			o, err := redisstore.ParseOptions(urls, settings)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, o)
			admits := func() bool {
				_, err := s.Admit(t.Context(), admission(""))
				return err == nil
			}
			if !admits() {
				t.Fatal("got no run with the first password")
			}
			require("second")
			testkit.Eventually(t, "the first password is refused", func() bool {
				sentinels.Master.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				return !admits()
			})
			rotate("second")
			testkit.Eventually(t, "the second password is used", admits)
		})
	}
}
