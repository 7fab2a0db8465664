// Command caddy is Caddy with the agent_runs module built in.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-agent-runs/caddy-agent-runs/caddymodule"
)

func main() {
	caddycmd.Main()
}
