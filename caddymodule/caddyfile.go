package caddymodule

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterGlobalOption("agent_runs", parseApp)
	httpcaddyfile.RegisterDirective("agent_runs", parseDirective)
	// Inside encode, so that frames are still plain, and around everything that
	// answers: one directive at the top of a site covers all of it.
	httpcaddyfile.RegisterDirectiveOrder("agent_runs", httpcaddyfile.After, "encode")
	registerCommand()
}

// parseDirective makes a route of the directive. Its matcher is not the
// route's: it narrows what may start a run, and run resources are served
// wherever the directive is reached.
func parseDirective(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // the directive's name
	matcher, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, h.WrapErr(err)
	}
	handler := new(Handler)
	if err := handler.unmarshal(h.Dispenser, globalApp(h)); err != nil {
		return nil, err
	}
	if matcher != nil {
		handler.MatcherSetsRaw = append(handler.MatcherSetsRaw, matcher)
	}
	return h.NewRoute(nil, handler), nil
}

// globalApp returns the global option of the Caddyfile, or the default.
func globalApp(h httpcaddyfile.Helper) *App {
	app := new(App)
	if option, ok := h.Option("agent_runs").(httpcaddyfile.App); ok {
		if err := caddy.StrictUnmarshalJSON(option.Value, app); err != nil {
			return new(App) // it was parsed before; Caddy will load what it can
		}
	}
	return app
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	agent_runs [<matcher>] {
//	    realm                   <name>
//	    name                    <name>
//	    start                   [<methods...>] <paths...>     # repeatable
//	    start                   { <request matchers> }        # repeatable
//	    api                     <path>
//	    resume_path             auto | off | <templates...>   # repeatable
//	    dialect                 auto | <dialect>
//	    dialect                 custom {
//	        frames       sse | lines
//	        type         event | <path>
//	        text         <paths...>
//	        reasoning    <paths...>
//	        id           <path>
//	        conversation <path>
//	        model        <path>
//	        usage        <path of input> <path of output>
//	        error        <paths...>
//	        finish       <paths...>
//	        call         <path of id> <path of name> [<path of arguments>]
//	        result       <path of id> <path of result>
//	        on           <types...> {                         # repeatable
//	            # the paths above, and
//	            end
//	            means    <meaning>
//	            waiting
//	            resumes
//	        }
//	        done         <data...>                            # repeatable
//	        word         <word> <meaning>                     # repeatable
//	        clean_end
//	        generate     <ends of paths...>                   # repeatable
//	        ids          on | off
//	        filler       comment | space | newline | off
//	        on_failure   [<event>] <JSON with {message} and {code}>
//	    }
//	    conversation            header|query|body|path <name> # repeatable
//	    conversation_busy       auto | reject | replace | queue <timeout> | allow
//	    identity                session [{
//	        secret    <secret>
//	        bind      cookie|header <names...>                # repeatable
//	        same_site lax | none
//	    }]
//	    identity                header <subject header> [<tenant header>]
//	    identity                caddy [<placeholder>] [tenant <placeholder>]
//	    identity                jwt {                          # repeatable, once for each issuer
//	        issuer        <iss>
//	        audience      <names...>
//	        jwks          <https URL or file>
//	        key           <algorithm> <secret or PEM>         # repeatable
//	        algorithms    <names...>
//	        subject_claim <claim>
//	        tenant_claim  <claim>
//	        scope_claim   <claim> [read <scope>] [write <scope>]
//	        leeway        <duration> | off
//	        cookie        <name>
//	        query         <parameter>
//	    }
//	    identity                anonymous
//	    identity                backend GET <url> {
//	        subject <JSON path> | header <name>
//	        tenant  <JSON path> | header <name>
//	        cache   <duration> | off
//	    }
//	    acl                     owner
//	    acl                     claims {
//	        read  <claim>
//	        write <claim>
//	    }
//	    acl                     backend {
//	        read  GET <url>
//	        write GET <url>
//	        start GET <url>
//	        cache <duration> | off
//	    }
//	    recheck                 <duration>
//	    expiry                  lenient | strict
//	    ticket                  off | <duration>
//	    replay_headers          <names...>                    # repeatable
//	    implicit_retry          <duration> | off
//	    idempotency {
//	        window     <duration>
//	        forward
//	        required
//	        on_running attach | conflict
//	    }
//	    on_disconnect           continue | cancel [after <duration>]
//	    cancel                  auto | close
//	    cancel                  call <method> <path or URL> [{
//	        header <name> <value>                             # repeatable, of a URL
//	    }]
//	    steer                   <method> <path or URL> [{ header <name> <value> }]
//	    status                  auto | off | <method> <path or URL> [{ header <name> <value> }]
//	    cancel_deadline         <duration>
//	    deadline                <duration>
//	    response_header_timeout <duration>
//	    stream_idle_timeout     <duration>
//	    frame_idle_timeout      <duration>
//	    keepalive               <duration> | 0 | off
//	    early_headers           off | <duration>
//	    side_effects            possible | none
//	    tools {
//	        read_only  <names...>                             # repeatable
//	        idempotent <names...>                             # repeatable
//	    }
//	    agent_release           <template>
//	    resource_scope          <template>
//	    limits {
//	        active_runs_per_subject <number>
//	        readers_per_run         <number>
//	        request_body            <size>
//	        frame                   <size>
//	        run_bytes               <size>
//	        run_frames              <number>
//	    }
//	    guard {
//	        roles  <names...>                                 # repeatable
//	        models <names...>                                 # repeatable
//	        deny   <paths...>                                 # repeatable
//	        set    <path> <value>                             # repeatable
//	        urls   none
//	    }
//	    cors                    <origins...>                  # repeatable
//	}
//
// The matcher narrows which requests may start a run. Inside the block
// {run_id} and {conversation_id} may be written without their prefix. Calls
// also have {upstream_id}, {upstream_run_id} and {start_path}.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return h.unmarshal(d, new(App))
}

// unmarshal also compares the options with those of the app.
func (h *Handler) unmarshal(d *caddyfile.Dispenser, app *App) error {
	d.Next() // the directive's name
	b := newBlock(d)
	if d.NextArg() {
		return d.Errf("agent_runs takes a matcher and a block, found %q", d.Val())
	}
	if err := b.each(func(name string) error { return h.unmarshalOption(b, name) }); err != nil {
		return err
	}
	_, record := app.retention()
	return b.locate(errors.Join(h.check(), h.checkApp(record, app.Store.memory())))
}

// unmarshalOption parses one subdirective.
func (h *Handler) unmarshalOption(b *block, name string) error {
	o, ok := handlerOptions[name]
	if !ok {
		return b.unrecognized("subdirective", name, slices.Collect(maps.Keys(handlerOptions)))
	}
	if err := b.once(name, o.repeatable); err != nil {
		return err
	}
	return o.parse(h, b)
}

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
//	        path   <directory>
//	        memory <size>
//	    }
//	    store            redis <urls...> {
//	        sentinel      <master>
//	        durability    wait:<n>
//	        key_prefix    <prefix>
//	        pool_size     <n>
//	        user          <name>
//	        password_file <file>
//	        tls {
//	            ca          <file>
//	            cert        <file>
//	            key         <file>
//	            server_name <name>
//	        }
//	        sentinel_user          <name>
//	        sentinel_password_file <file>
//	    }
//	    frame_retention  <duration>
//	    record_retention <duration>
//	    lease            <duration>
//	    store_grace      <duration>
//	    store_memory     <size>
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
	"lease":            {parse: duration(func(a *App) *caddy.Duration { return &a.Lease })},
	"store_grace":      {parse: duration(func(a *App) *caddy.Duration { return &a.StoreGrace })},
	"store_memory":     {parse: size(func(a *App) *Size { return &a.StoreMemory })},
	"shutdown":         {parse: parseShutdown},
}

var storeOptions = map[string]option[*Store]{
	"memory": {parse: size(func(s *Store) *Size { return &s.Memory })},
	"path":   {parse: text(func(s *Store) *string { return &s.Path })},
}

const storeAllowed = "embedded, memory, redis <urls...>"

func parseStore(a *App, b *block) error {
	args := b.RemainingArgs()
	if len(args) == 0 {
		return b.WrapErr(wrong("store", "", storeAllowed))
	}
	a.Store.Kind = args[0]
	if a.Store.Kind == storeRedis {
		return parseRedis(a, b, args[1:])
	}
	if len(args) > 1 || args[0] != storeEmbedded && args[0] != storeMemory {
		// What follows the name may be an address with a password.
		return b.Errf("unrecognized store %q, allowed: %s", args[0], storeAllowed)
	}
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
	_ caddyfile.Unmarshaler             = (*Handler)(nil)
	_ caddyfile.Unmarshaler             = (*App)(nil)
	_ httpcaddyfile.UnmarshalFunc       = parseDirective
	_ httpcaddyfile.UnmarshalGlobalFunc = parseApp
)
