package caddymodule

import (
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// parseApp parses the global option.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("agent_runs stands twice: put all its options into one block")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "agent_runs", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from Caddyfile tokens. Syntax:
//
//	agent_runs {
//	    store            embedded | memory {
//	        memory <size>
//	    }
//	    frame_retention  <duration>
//	    record_retention <duration>
//	    shutdown         finish [<max>] | release
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the option's name
	b := newBlock(d)
	if d.NextArg() {
		return d.Errf("agent_runs takes a block, found %q", d.Val())
	}
	err := b.each(func(name string) error {
		o, ok := appOptions[name]
		if !ok {
			return b.unrecognized("option", name, slices.Collect(maps.Keys(appOptions)))
		}
		if err := b.once(name, o.repeatable); err != nil {
			return err
		}
		return o.parse(a, b)
	})
	if err != nil {
		return err
	}
	return b.locate(a.check())
}

var appOptions = map[string]option[*App]{
	"store":            {parse: parseStore},
	"frame_retention":  {parse: duration(func(a *App) *caddy.Duration { return &a.FrameRetention })},
	"record_retention": {parse: duration(func(a *App) *caddy.Duration { return &a.RecordRetention })},
	"shutdown":         {parse: parseShutdown},
}

var storeOptions = map[string]option[*Store]{
	"memory": {parse: size(func(s *Store) *Size { return &s.Memory })},
}

const storeAllowed = "embedded, memory"

func parseStore(a *App, b *block) error {
	args := b.RemainingArgs()
	if len(args) == 0 {
		return b.WrapErr(wrong("store", "", storeAllowed))
	}
	if len(args) > 1 || args[0] != "embedded" && args[0] != "memory" {
		// What follows the name may be an address with a password.
		return b.Errf("unrecognized store %q, allowed: %s", args[0], storeAllowed)
	}
	a.Store.Kind = args[0]
	return parseOptions(&a.Store, b, "store", storeOptions)
}

const shutdownAllowed = "finish [<max>], release"

func parseShutdown(a *App, b *block) error {
	args := b.RemainingArgs()
	bad := b.WrapErr(wrong("shutdown", strings.Join(args, " "), shutdownAllowed))
	if len(args) == 0 || len(args) > 2 {
		return bad
	}
	a.Shutdown.Mode = args[0]
	if len(args) == 2 {
		d, err := caddy.ParseDuration(args[1])
		if err != nil || d <= 0 {
			return bad
		}
		a.Shutdown.Max = caddy.Duration(d)
	}
	return nil
}

// Interface guards.
var (
	_ caddyfile.Unmarshaler             = (*App)(nil)
	_ httpcaddyfile.UnmarshalGlobalFunc = parseApp
)
