// Command bench compares Caddy's plain reverse_proxy with agent_runs in front
// of the same scripted backend, on this machine, now:
//
//	go run ./internal/bench quick
//	go run ./internal/bench full -write docs/performance.md
//
// It promises:
//
//  1. Only ratios of one run are compared: both sides are measured in turns
//     (A B A B ...), each time in a fresh process of the same binary, and the
//     medians are put beside each other.
//  2. Speed never hides loss: every frame of every stream is checked, and one
//     that is missing, doubled or out of order fails the whole run.
//  3. It stays on the loopback interface, is bounded in time, and ends every
//     process that it started.
//
// Backend and client are processes of their own, so that the CPU time of the
// gateway is that of the gateway alone. It needs Linux.
package main
