package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/demo"
)

func registerCommand() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "agent-runs",
		Usage: "[--from <addr>] --to <addr> [--redis <url>] | --demo",
		Short: "Puts durable agent runs in front of an application",
		Long: `
Puts Caddy with agent_runs in front of an application that streams answers of
LLMs or agents. An answer then goes on when the browser's connection breaks,
can be resumed, stopped and replayed, and is paid for once however often a
client retries. Nothing in the application has to change.

  $ caddy agent-runs --from :8080 --to localhost:3000

To see it work without an application, run the demo, a scripted agent with a
page to ask it, and open the address that it prints:

  $ caddy agent-runs --demo

As with caddy reverse-proxy, a --from address with a host or IP is served over
HTTPS with a certificate, unless it begins with http:// or ends in port 80.
Runs are kept in Caddy's data directory, where they survive restarts (those of
the demo in memory), or with --redis in Redis or Valkey, where any number of
gateways share them:

  $ caddy agent-runs --to localhost:3000 --redis redis://localhost:6379

A password on a command line can be seen by others on the machine; a Caddyfile
takes it from a file or the environment. For anything beyond these flags write
one; "agent_runs" alone in a site is all that this command configures.
`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Flags().StringP("from", "f", ":8080", "Address on which to receive traffic")
			cmd.Flags().StringSliceP("to", "t", nil, "Address of the application; repeat it for several instances")
			cmd.Flags().String("redis", "", "Address of a Redis to keep runs in, redis:// or rediss://")
			cmd.Flags().Bool("demo", false, "Try it with a built-in scripted agent and a page to ask it (everybody is the same user)")
			cmd.Flags().BoolP("change-host-header", "c", false, "Send the application its own address as Host, which hosted APIs need")
			cmd.Flags().Bool("insecure", false, "Do not verify the TLS certificate of the application (for development)")
			cmd.Flags().BoolP("internal-certs", "i", false, "Use Caddy's own CA for the certificate of the --from address")
			cmd.Flags().Bool("access-log", false, "Log every request")
			cmd.Flags().BoolP("debug", "v", false, "Log verbosely")
			cmd.RunE = caddycmd.WrapCommandFuncForCobra(runCommand)
		},
	})
}

// commandFlags are the flags of the subcommand.
type commandFlags struct {
	from          string
	to            []string
	redis         string
	demo          bool
	changeHost    bool
	insecure      bool
	internalCerts bool
	accessLog     bool
	debug         bool
}

// runCommand returns only if Caddy could not be started.
func runCommand(fs caddycmd.Flags) (int, error) {
	caddy.TrapSignals()
	to, err := fs.GetStringSlice("to")
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("reading --to: %w", err)
	}
	f := commandFlags{
		from: fs.String("from"), to: to, redis: fs.String("redis"), demo: fs.Bool("demo"), changeHost: fs.Bool("change-host-header"),
		insecure: fs.Bool("insecure"), internalCerts: fs.Bool("internal-certs"),
		accessLog: fs.Bool("access-log"), debug: fs.Bool("debug"),
	}
	if f.demo {
		agent, err := startDemo()
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		defer agent.Close()
		f.to = append(f.to, agent.address())
	}
	if err := f.load(); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	fmt.Fprint(os.Stdout, f.greeting())
	select {} // a signal ends the process
}

// load makes the configuration and runs it.
func (f commandFlags) load() error {
	text, err := f.caddyfile()
	if err != nil {
		return err
	}
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "the flags of agent-runs"})
	if err != nil {
		return fmt.Errorf("reading flags: %w", err)
	}
	if err := caddy.Load(config, true); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	return nil
}

// caddyfile writes the flags as a Caddyfile, so that addresses mean here what
// they mean there.
func (f commandFlags) caddyfile() (string, error) {
	if err := f.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(on bool, text string) {
		if on {
			b.WriteString(text + "\n")
		}
	}
	line(true, "{\n\tadmin off\n\tpersist_config off")
	line(f.debug, "\tdebug")
	line(f.internalCerts, "\tlocal_certs")
	line(f.redis != "", "\tagent_runs {\n\t\tstore redis "+f.redis+"\n\t}")
	line(f.redis == "" && f.demo, "\tagent_runs {\n\t\tstore memory\n\t}")
	line(true, "}\n"+f.from+" {")
	line(f.accessLog, "\tlog")
	line(!f.demo, "\tagent_runs")
	line(f.demo, "\tagent_runs {\n\t\tidentity anonymous\n\t}")
	line(true, "\treverse_proxy "+strings.Join(f.to, " ")+" {")
	line(f.changeHost, "\t\theader_up Host {upstream_hostport}")
	line(f.insecure && f.overTLS(), "\t\ttransport http {\n\t\t\ttls_insecure_skip_verify\n\t\t}")
	line(true, "\t}\n}")
	return b.String(), nil
}

func (f commandFlags) overTLS() bool {
	return len(f.to) > 0 && strings.HasPrefix(f.to[0], "https://")
}

// noWord are bytes that would end or change a word of a Caddyfile.
const noWord = " \t\r\n\"`{},#\\"

// checkRedis refuses what is no address of a Redis. It never repeats it.
func (f commandFlags) checkRedis() error {
	switch {
	case f.redis == "":
		return nil
	case strings.ContainsAny(f.redis, noWord):
		return errors.New("--redis is not an address; allowed is redis://[user:password@]host:port[/db], and rediss:// for TLS")
	}
	if err := (Redis{URLs: []string{f.redis}}).check(); err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	return nil
}

// check refuses what is no address. Addresses become words of a Caddyfile.
func (f commandFlags) check() error {
	switch {
	case len(f.to) == 0:
		return errors.New("--to is required: the address of your application, such as localhost:3000; or try --demo")
	case f.demo && len(f.to) > 1:
		return errors.New("--demo brings its own application: leave --to out")
	}
	if err := f.checkRedis(); err != nil {
		return err
	}
	for _, address := range append([]string{f.from}, f.to...) {
		if address == "" || strings.ContainsAny(address, noWord) {
			return fmt.Errorf("%q is not an address; allowed are host:port, :port and http(s)://host:port", address)
		}
	}
	parsed, err := httpcaddyfile.ParseAddress(f.from)
	switch {
	case err != nil:
		return fmt.Errorf("--from %s is not an address: %w", f.from, err)
	case parsed.Path != "":
		return fmt.Errorf("--from %s: paths are not allowed", f.from)
	case parsed.Scheme != "" && parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("--from %s: schemes other than http and https are not allowed", f.from)
	}
	return nil
}

// greeting says where to go. It is called after the address was checked.
func (f commandFlags) greeting() string {
	if f.demo {
		return fmt.Sprintf("\n  The demo is ready. Open %s in a browser, ask, and reload in mid-answer.\n  Stop it with Ctrl-C.\n\n", f.url())
	}
	return fmt.Sprintf("\n  Durable agent runs at %s, in front of %s.\n  Stop it with Ctrl-C.\n\n", f.url(), strings.Join(f.to, ", "))
}

// url is the address for a browser on this machine.
func (f commandFlags) url() string {
	a, err := httpcaddyfile.ParseAddress(f.from)
	if err != nil {
		return f.from
	}
	if a.Scheme == "" {
		a.Scheme = "https"
		if a.Host == "" || a.Port == "80" {
			a.Scheme = "http"
		}
	}
	if a.Host == "" {
		a.Host = "localhost"
	}
	if a.Scheme == "http" && a.Port == "80" || a.Scheme == "https" && a.Port == "443" {
		a.Port = ""
	}
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.Port != "" {
		host += ":" + a.Port
	}
	return a.Scheme + "://" + host + "/"
}

// demoAgent serves the scripted agent on the loopback interface, as an
// application behind Caddy would be.
type demoAgent struct {
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
}

// startDemo listens on a free port.
func startDemo() (*demoAgent, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the demo agent: %w", err)
	}
	a := &demoAgent{
		listener: listener,
		server:   &http.Server{Handler: demo.Handler(), ReadHeaderTimeout: time.Minute},
	}
	a.serving.Go(func() {
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the demo agent stopped", slog.Any("error", err))
		}
	})
	return a, nil
}

// address is where the agent listens.
func (a *demoAgent) address() string { return a.listener.Addr().String() }

// Close ends all answers and waits for the server.
func (a *demoAgent) Close() error {
	err := a.server.Close()
	a.serving.Wait()
	if err != nil {
		return fmt.Errorf("stopping the demo agent: %w", err)
	}
	return nil
}
