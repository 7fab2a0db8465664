// Package e2e tests the gateway as its users meet it: the built program as a
// process, a scripted upstream behind it, and clients in front.
//
// Each case is named after the fault that it keeps away. Its inputs lie under
// testdata/cases, where upstream scripts are the jsonl files that
// internal/testkit plays.
package e2e

import (
	"os"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// shared is the gateway and the upstream of all tests that do not need their
// own. They never meet: each test is a subject and has a stage of its own.
var shared struct {
	once     sync.Once
	upstream *testkit.Upstream
	gateway  *testkit.Gateway
	err      error
}

// The sites of the shared gateway.
const (
	siteAuto      = "auto"      // as a bare directive would be
	siteGeneric   = "generic"   // streams without a known meaning
	siteKeepalive = "keepalive" // generic, with a keepalive that a test can wait for
	siteSmall     = "small"     // generic, with a frame limit of 1 MiB
)

func TestMain(m *testing.M) {
	os.Exit(testkit.Main(m, closeShared))
}

func openShared() {
	shared.upstream = testkit.OpenUpstream()
	to := shared.upstream.Addr()
	generic := []string{"dialect generic", "start POST /generate"}
	shared.gateway, shared.err = testkit.Open(testkit.Setup{Sites: map[string]string{
		siteAuto:      testkit.Site(to),
		siteGeneric:   testkit.Site(to, generic...),
		siteKeepalive: testkit.Site(to, append(generic, "keepalive 200ms")...),
		siteSmall:     testkit.Site(to, append(generic, "limits {\nframe 1MiB\n}")...),
	}})
}

func closeShared() error {
	if sdk.folder != "" {
		_ = os.RemoveAll(sdk.folder) // a temporary folder
	}
	if shared.upstream == nil {
		return shared.err
	}
	shared.upstream.Close()
	if shared.err != nil {
		return shared.err
	}
	return shared.gateway.Close()
}

// on puts scripts behind a site of the shared gateway and returns a client of
// it that is this test and nobody else.
func on(t testing.TB, site string, scripts ...testkit.Script) (testkit.Client, *testkit.Stage) {
	t.Helper()
	shared.once.Do(openShared)
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", shared.gateway.Log.Tail(20))
		}
	})
	stage := shared.upstream.Stage(scripts...)
	return shared.gateway.Client(site).As(t.Name()).On(stage), stage
}

// generate is a start on the generic sites.
func generate(conversation string) testkit.Ask {
	return testkit.Chat(conversation, "go").At("/generate").With("Accept", "text/event-stream")
}
