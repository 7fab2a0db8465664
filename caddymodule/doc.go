// Package caddymodule is Caddy's side of the gateway: the app that keeps the
// store, the handler that serves one agent_runs directive, their Caddyfile and
// JSON forms, and the agent-runs subcommand. Nothing outside this package
// knows Caddy.
//
// It promises:
//
//  1. A mistake in the configuration names the option, what was found and what
//     is allowed; in a Caddyfile also the file and the line. The JSON form is
//     held to the same rules.
//  2. Adapting and validating a configuration touches no store.
//  3. A reload keeps the store, the runs and their readers. A reload that would
//     drop stored runs by naming another store is refused.
//  4. A store is closed when no configuration refers to it and no run is left in
//     it, and never before.
//  5. A detached request shares nothing that changes with the request it was
//     made from.
//  6. Counters survive reloads.
package caddymodule
