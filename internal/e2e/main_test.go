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
	siteAuto      = "auto"      // recognises generations and dialects by itself
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
	// Only one site may show signs of life: on a busy machine every silence is
	// long, and bytes are compared.
	const quiet = "keepalive off"
	shared.gateway, shared.err = testkit.Open(testkit.Setup{Sites: map[string]string{
		siteAuto:      testkit.Site(to, quiet),
		siteGeneric:   genericSite(to, quiet),
		siteKeepalive: genericSite(to, "keepalive 200ms"),
		siteSmall:     genericSite(to, quiet, "limits {\nframe 1MiB\n}"),
	}})
}

// genericSite is a site whose streams have no known meaning.
func genericSite(upstream string, options ...string) string {
	return testkit.Site(upstream, append([]string{"dialect generic", "start POST /generate"}, options...)...)
}

func closeShared() error {
	if shared.upstream == nil {
		return shared.err
	}
	shared.upstream.Close()
	if shared.err != nil {
		return shared.err
	}
	return shared.gateway.Close()
}

// opener puts scripts behind a site of gateways that tests share, and returns a
// client that is this test and nobody else. A case that takes one holds for
// one gateway and for several.
type opener func(t testing.TB, site string, scripts ...testkit.Script) (testkit.Client, *testkit.Stage)

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
