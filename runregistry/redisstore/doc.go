// Package redisstore keeps runs in Redis or Valkey, so that any gateway instance
// serves any run. It keeps the promises of package runregistry, and adds:
//
//  1. Every transition is decided in Go by the core's own functions and
//     committed by one Lua script that compares what was read and writes
//     everything or nothing. A script may be sent twice.
//  2. All keys of one run share a hash tag, and every key that a script touches
//     is named in KEYS; keys.go names them all.
//  3. Every key has a deadline from the command that makes it.
//  4. Leases are compared with the server's clock only.
//  5. Frames of this instance's runs are read live from memory, after Redis has
//     acknowledged them. Those of other instances' runs follow a subscription;
//     what it loses is repaired from the log.
//  6. Nothing waits longer than the call's deadline, and no queue is unbounded.
//  7. Whatever is wrong with Redis is [runregistry.ErrUnavailable].
//
// Opening a store does not connect. docs/redis.md tells how to run Redis for it.
package redisstore
