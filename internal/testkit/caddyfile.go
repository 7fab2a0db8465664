package testkit

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Setup is the configuration of a gateway under test.
type Setup struct {
	// Global is the body of the agent_runs global option; empty leaves it out.
	Global string
	// Options are further global options.
	Options string
	// Sites are the sites by name: each listens on a port of its own.
	Sites map[string]string
	// Plain takes a program without the race detector, whose memory is then the
	// program's own.
	Plain bool
}

// Site is the usual body of a site: agent_runs with options, then the backend.
// Subjects come from [SubjectHeader].
func Site(upstream string, options ...string) string {
	return Bare(upstream, append([]string{"identity header " + SubjectHeader}, options...)...)
}

// Bare is a site body without an identity of its own.
func Bare(upstream string, options ...string) string {
	return "agent_runs {\n" + strings.Join(options, "\n") + "\n}\nreverse_proxy " + upstream + "\n"
}

// render writes the Caddyfile. Loopback is a trusted proxy, so that tests
// choose their subjects, and each site writes its access log.
func (s *Setup) render(admin string, ports map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\nadmin %s\nauto_https off\nskip_install_trust\nservers {\nprotocols h1 h2 h2c\ntrusted_proxies static 127.0.0.1/8 ::1/128\n}\n%s\n", admin, s.Options)
	if s.Global != "" {
		fmt.Fprintf(&b, "agent_runs {\n%s\n}\n", s.Global)
	}
	b.WriteString("}\n")
	for _, name := range slices.Sorted(maps.Keys(s.Sites)) {
		fmt.Fprintf(&b, "http://:%d {\nbind 127.0.0.1\nlog\n%s\n}\n", ports[name], s.Sites[name])
	}
	return b.String()
}

// given are the ports that this process has handed out. Caddy shares its
// sockets, so that two gateways on one port would not even notice.
var given sync.Map

// FreePort returns a loopback port that nobody listens on, and never the same
// one twice. It lies below the range that systems take outgoing connections'
// ports from, so that no client takes it before it is bound.
func FreePort() (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(18000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, errors.New("no free port in 100 tries")
}
