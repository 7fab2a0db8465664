// Package proxy is HTTP in, HTTP out: it recognises starts, admits them, runs
// them against the handler that follows, and serves their logs.
//
// Everything follows from one rule: a pump reads an upstream and writes the
// log; a tail reads the log and writes a client; no goroutine does both.
package proxy
