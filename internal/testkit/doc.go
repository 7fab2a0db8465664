// Package testkit is what the tests of the whole gateway stand on: a scripted
// upstream, a reader of what clients receive, and the gateway itself as a
// process.
//
// It promises:
//
//  1. It shares no code with what it tests. Its reader of event streams follows
//     the HTML Standard, section 9.2.6, and nothing else.
//  2. Nothing waits by hoping: every wait ends with an event, and a wait that
//     would never end fails its test.
//  3. A gateway that panics, races or dies fails the test that started it.
//  4. A missing component skips on a developer's machine and fails in CI.
package testkit
