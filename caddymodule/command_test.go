package caddymodule

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCommandWritesACaddyfile for every combination of flags that makes a
// difference, and it is a valid one.
func TestCommandWritesACaddyfile(t *testing.T) {
	to := []string{"localhost:3000"}
	for name, c := range map[string]struct {
		flags commandFlags
		want  []string // in this order
	}{
		"plain":           {commandFlags{from: ":8080", to: to}, []string{":8080 {", "\tagent_runs\n", "reverse_proxy localhost:3000"}},
		"several":         {commandFlags{from: ":8080", to: []string{"a:1", "b:2"}}, []string{"reverse_proxy a:1 b:2"}},
		"a domain":        {commandFlags{from: "chat.example.com", to: to}, []string{"chat.example.com {"}},
		"demo":            {commandFlags{from: ":8080", to: to, demo: true}, []string{"agent_runs {", "identity anonymous"}},
		"change host":     {commandFlags{from: ":8080", to: to, changeHost: true}, []string{"header_up Host {upstream_hostport}"}},
		"insecure":        {commandFlags{from: ":8080", to: []string{"https://localhost:3000"}, insecure: true}, []string{"tls_insecure_skip_verify"}},
		"insecure, plain": {commandFlags{from: ":8080", to: to, insecure: true}, nil},
		"logs":            {commandFlags{from: ":8080", to: to, accessLog: true, debug: true}, []string{"\tdebug", "\tlog\n"}},
		"redis":           {commandFlags{from: ":8080", to: to, redis: "redis://:pw@localhost:6379/2"}, []string{"store redis redis://:pw@localhost:6379/2", ":8080 {"}},
		"internal certs":  {commandFlags{from: "localhost", to: to, internalCerts: true}, []string{"local_certs"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := c.flags.caddyfile()
			if err != nil {
				t.Fatalf("writing: got %v, want no error", err)
			}
			rest := text
			for _, want := range c.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("Caddyfile: got\n%s\nwant %q in it", text, want)
				}
				rest = after
			}
			config, err := adapt(text)
			if err != nil {
				t.Fatalf("adapting\n%s\ngot %v, want no error", text, err)
			}
			if err := validate(t, config); err != nil {
				t.Errorf("validating\n%s\ngot %v, want no error", text, err)
			}
		})
	}
}

// TestCommandRefusesWhatIsNoAddress: flags become words of a Caddyfile, and
// must not become more than one.
func TestCommandRefusesWhatIsNoAddress(t *testing.T) {
	to := []string{"localhost:3000"}
	for _, c := range []struct {
		flags commandFlags
		want  string
	}{
		{commandFlags{from: ":8080"}, "--to is required"},
		{commandFlags{from: ":8080", to: []string{"a:1", "b:2"}, demo: true}, "leave --to out"},
		{commandFlags{from: "", to: to}, "is not an address"},
		{commandFlags{from: ":8080 {\nrespond hacked\n}", to: to}, "is not an address"},
		{commandFlags{from: ":8080", to: []string{"a:1 b:2"}}, "is not an address"},
		{commandFlags{from: ":8080", to: []string{"{env.HOME}"}}, "is not an address"},
		{commandFlags{from: ":8080,:9090", to: to}, "is not an address"},
		{commandFlags{from: "localhost:8080/path", to: to}, "paths are not allowed"},
		{commandFlags{from: ":8080", to: to, redis: "localhost:6379"}, "--redis: store: localhost:6379: the scheme must be redis or rediss"},
		{commandFlags{from: ":8080", to: to, redis: "redis://a redis://b"}, "--redis is not an address"},
		{commandFlags{from: ":8080", to: to, redis: "redis://a {\nkey_prefix x\n}"}, "--redis is not an address"},
		{commandFlags{from: "ftp://localhost", to: to}, "--from ftp://localhost"},
	} {
		if _, err := c.flags.caddyfile(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("flags %+v: got %v, want an error with %q", c.flags, err, c.want)
		}
	}
}

// TestGreetingNamesTheAddressToOpen.
func TestGreetingNamesTheAddressToOpen(t *testing.T) {
	for from, want := range map[string]string{
		":8080":                    "http://localhost:8080/",
		":80":                      "http://localhost/",
		"localhost":                "https://localhost/",
		"http://localhost:8080":    "http://localhost:8080/",
		"http://example.com":       "http://example.com/",
		"chat.example.com":         "https://chat.example.com/",
		"https://example.com:8443": "https://example.com:8443/",
		"example.com:80":           "http://example.com/",
		"http://[::1]:8080":        "http://[::1]:8080/",
	} {
		for _, demo := range []bool{true, false} {
			f := commandFlags{from: from, to: []string{"localhost:3000"}, demo: demo}
			if got := f.greeting(); !strings.Contains(got, " "+want) {
				t.Errorf("greeting for --from %s: got %q, want %s in it", from, got, want)
			}
		}
	}
}

// TestDemoRunsFromOneCommand: a page to open, an agent behind it, and its
// answers are runs.
func TestDemoRunsFromOneCommand(t *testing.T) {
	base, output := runCommandLine(t, "--demo")
	if !strings.Contains(output.String(), "Open "+base+"/") {
		t.Errorf("output: got\n%s\nwant the address to open", output)
	}
	resp, body := fetchURL(t, http.MethodGet, base+"/", "")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("page: got %d %.100q, want a page", resp.StatusCode, body)
	}
	run := firstFrame(t, base, `{"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	if _, body = fetchURL(t, http.MethodGet, base+"/_runs/"+run, ""); !strings.Contains(body, `"state":"running"`) {
		t.Errorf("record on another device, after the first one left: got %s, want it running", body)
	}
	if _, body = fetchURL(t, http.MethodPost, base+"/_runs/"+run+"/cancel", ""); !strings.Contains(body, `"state":"cancel`) {
		t.Errorf("stop on another device: got %s, want it cancelled or about to be", body)
	}
}

// firstFrame starts a run, reads the beginning of its answer and leaves.
func firstFrame(t *testing.T, base, prompt string) (run string) {
	t.Helper()
	resp := request(t, http.MethodPost, base+chatPath, prompt)
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	run = resp.Header.Get("X-Run-Id")
	if err != nil || !strings.HasPrefix(line, "id: "+run) {
		t.Fatalf("first line of the answer: got %q (%v), want an id of run %q", line, err, run)
	}
	return run
}

// TestCommandProxiesAnApplication.
func TestCommandProxiesAnApplication(t *testing.T) {
	u := newUpstream(t)
	base, _ := runCommandLine(t, "--to", u.Listener.Addr().String())
	if _, body := fetchURL(t, http.MethodGet, base+"/plain", ""); !strings.HasPrefix(body, "plain GET /plain") {
		t.Errorf("other request: got %q, want the application's answer", body)
	}
	resp := request(t, http.MethodPost, base+chatPath, prompt)
	defer resp.Body.Close()
	if resp.Header.Get("X-Run-Id") == "" {
		t.Fatalf("answer: got %d with %v, want a run", resp.StatusCode, resp.Header)
	}
	u.next().finish()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(body), doneMark) {
		t.Errorf("answer: got %q (%v), want a whole one", body, err)
	}
}

// TestDemoNeedsNoPortOfItsOwn: its agent listens where nobody else can reach
// it, and goes when it is closed.
func TestDemoNeedsNoPortOfItsOwn(t *testing.T) {
	agent, err := startDemo()
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(agent.address())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		t.Errorf("address of the agent: got %s, want a loopback address", agent.address())
	}
	if err := agent.Close(); err != nil {
		t.Errorf("closing: got %v, want no error", err)
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", agent.address()); err == nil {
		conn.Close()
		t.Error("agent after Close: got a connection, want none")
	}
}

// runCommandLine runs the subcommand on a free port and waits for its
// greeting.
func runCommandLine(t *testing.T, flags ...string) (base string, output *safeBuffer) {
	t.Helper()
	for range 5 {
		address := freeAddress(t)
		output = new(safeBuffer)
		args := append([]string{"agent-runs", "--from", "http://" + address}, flags...)
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		dir := t.TempDir()
		cmd.Env = append(os.Environ(), asCaddy+"=yes", "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it has ended, if it was not to run
			if t.Failed() {
				t.Logf("process:\n%s", output)
			}
		})
		if greeted(t, output, ended) {
			return "http://" + address, output
		}
	}
	t.Fatalf("starting: got\n%s\nwant a greeting", output)
	return "", nil
}

// greeted reports whether the command came up. It does not if somebody else
// took the port in the meantime.
func greeted(t *testing.T, output *safeBuffer, ended chan error) bool {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(output.String(), "Stop it with Ctrl-C.") {
		select {
		case <-tick.C:
		case err := <-ended:
			if !strings.Contains(output.String(), "address already in use") {
				t.Fatalf("starting: got %v and\n%s\nwant it to go on", err, output)
			}
			return false
		case <-deadline:
			t.Fatalf("starting: got\n%s\nwithin %v, want a greeting", output, patience)
		}
	}
	return true
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func fetchURL(t *testing.T, method, url, body string) (*http.Response, string) {
	t.Helper()
	resp := request(t, method, url, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: got %v, want a whole answer", method, url, err)
	}
	return resp, string(text)
}

func request(t *testing.T, method, url, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: got %v, want an answer", method, url, err)
	}
	return resp
}

// TestCommandKeepsRunsInRedis: two gateways from the command line share them.
func TestCommandKeepsRunsInRedis(t *testing.T) {
	server := testkit.StartRedis(t)
	first, _ := runCommandLine(t, "--demo", "--redis", server.URL())
	second, _ := runCommandLine(t, "--demo", "--redis", server.URL())
	run := firstFrame(t, first, `{"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	if _, body := fetchURL(t, http.MethodGet, second+"/_runs/"+run, ""); !strings.Contains(body, `"state":"running"`) {
		t.Errorf("record at the other gateway: got %s, want it running", body)
	}
	if _, body := fetchURL(t, http.MethodPost, second+"/_runs/"+run+"/cancel", ""); !strings.Contains(body, `"state":"cancel`) {
		t.Errorf("stop at the other gateway: got %s, want it cancelled or about to be", body)
	}
}
