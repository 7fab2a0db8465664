package testkit

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// command is the package of the program under test.
const command = "github.com/caddy-agent-runs/caddy-agent-runs/cmd/caddy"

// program is one build of the program under test, made on first use and kept
// for the life of the test process.
type program struct {
	once sync.Once
	path string
	err  error
}

// The builds: as the tests themselves are built, and without the race
// detector, which costs memory of its own.
var alike, plain program

// Main runs the tests of a package that needs gateways. Most of their time is
// waiting, so more of them run at once than there are processors. stop runs
// after the tests and reports what went wrong in processes they shared.
func Main(m *testing.M, stop func() error) int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		_ = f.Value.Set("8") // a constant that parses
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	for _, p := range []*program{&alike, &plain} {
		if p.path != "" {
			_ = os.RemoveAll(filepath.Dir(p.path)) // a temporary folder
		}
	}
	return code
}

// binary returns the path of the gateway, with the race detector if the tests
// have it and the caller does not refuse.
func binary(withoutRace bool) (string, error) {
	if withoutRace || !raceEnabled {
		return plain.build()
	}
	return alike.build("-race")
}

func (p *program) build(flags ...string) (string, error) {
	p.once.Do(func() {
		folder, err := os.MkdirTemp("", "gateway")
		if err != nil {
			p.err = err
			return
		}
		p.path = filepath.Join(folder, "caddy")
		args := append([]string{"build", "-o", p.path}, flags...)
		out, err := exec.Command("go", append(args, command)...).CombinedOutput()
		if err != nil {
			p.err = fmt.Errorf("building the gateway: %w\n%s", err, out)
		}
	})
	return p.path, p.err
}
