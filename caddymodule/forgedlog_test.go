package caddymodule

import (
	"encoding/json"
	"strings"
	"testing"
)

// forged is what a backend says to add a line to a log, or to paint over one on
// a terminal.
const forged = "gpt\r\n{\"level\":\"error\",\"msg\":\"forged\"}\n\u2028\u0085\x1b[2Jforged"

// TestNobodyElseWritesALineOfTheLog, in either of Caddy's formats: what a
// backend or a client says stays inside the line that quotes it.
func TestNobodyElseWritesALineOfTheLog(t *testing.T) {
	model, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "console"} {
		t.Run(format, func(t *testing.T) {
			g, u := newGateway(t), newUpstream(t)
			g.loadText(strings.Replace(g.caddyfile(u.proxied("agent_runs")), "format json", "format "+format, 1))
			s := g.start()
			c := u.next()
			c.frames <- `data: {"id":"c","object":"chat.completion.chunk","model":` + string(model) + `,"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n"
			c.finish()
			s.rest()
			eventually(t, "the line of the run", func() bool { return strings.Contains(g.log(), "run ended") })
			if !strings.Contains(g.log(), "forged") {
				t.Fatal("got no model in the log, want it quoted")
			}
			for line := range strings.Lines(g.log()) {
				if strings.HasPrefix(line, `{"level":"error"`) || strings.Contains(line, "\x1b[2J") || strings.Contains(line, "\r") {
					t.Errorf("got a forged line %q", line)
				}
			}
		})
	}
}
