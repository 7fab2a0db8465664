// Package chain looks at the handlers around an agent_runs directive in the
// configuration of a Caddy server.
//
// It promises:
//
//  1. What it reports can follow in the chain of some request: blocks of which
//     only one is reached are kept apart.
//  2. Two agent_runs in one chain are found wherever that does not depend on
//     what a matcher says.
//  3. What it cannot read is left to Caddy to complain about.
package chain
