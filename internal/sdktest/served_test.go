package sdktest

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// served is somebody's server, which goes on with each line that it is given,
// with a gateway before it.
type served struct {
	*npm.Script
	addr string
	// line is the network between the two.
	line *testkit.Cutter
	g    *testkit.Gateway
	// field and credential are what its clients send to be known.
	field, credential string
}

// listen starts the server of a folder, which prints its port, without a
// gateway.
func listen(t *testing.T, folder *npm.Folder, field, credential string, args ...string) *served {
	t.Helper()
	s := &served{Script: folder.Run(t, "server.mjs", args...), field: field, credential: credential}
	s.addr = "127.0.0.1:" + s.Line(t)
	return s
}

// siteAlone is a site that looks for no stream which it has lost.
const siteAlone = "alone"

// serve is listen with a gateway as a bare directive makes it.
func serve(t *testing.T, folder *npm.Folder, field, credential string, args ...string) *served {
	t.Helper()
	s := listen(t, folder, field, credential, args...)
	s.line = testkit.NewCutter(t, "http://"+s.addr)
	to := strings.TrimPrefix(s.line.URL(), "http://")
	s.g = testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(to), siteAlone: testkit.Bare(to, "reattach off")}})
	return s
}

// back is a client of the gateway with the credential of the scripts.
func (s *served) back() testkit.Client { return s.g.Client("").With(s.field, s.credential) }

// record is that of the newest run.
func (s *served) record(t *testing.T) testkit.Record {
	t.Helper()
	list := testkit.Decode[struct{ Runs []testkit.Record }](t, s.back().Do(t, testkit.Ask{Path: "/_runs?limit=1"}).Want(200).Body())
	if len(list.Runs) == 0 {
		t.Fatal("there is no run")
	}
	return s.back().Snapshot(t, list.Runs[0].RunID)
}

// over is record once the run neither goes on nor is being stopped: a client may
// have all of an answer before its run has ended.
func (s *served) over(t *testing.T) (rec testkit.Record) {
	t.Helper()
	testkit.Eventually(t, "the run to be over", func() bool {
		rec = s.record(t)
		return rec.State != "running" && rec.State != "cancelling"
	})
	return rec
}

// step lets the server go on n times.
func (s *served) step(t *testing.T, n int) {
	t.Helper()
	for range n {
		s.Tell(t, "")
	}
}
