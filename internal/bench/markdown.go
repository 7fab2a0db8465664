package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// write puts the report into a Markdown file and its plot beside it.
func (rep *report) write(ctx context.Context, path string) error {
	plot := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
	if err := rep.plot(ctx, plot); err != nil {
		return err
	}
	if err := os.WriteFile(path, rep.markdown(filepath.Base(plot)), 0o644); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

const intro = `# Performance

Written by ` + "`make bench`" + `. The same binary, the same scripted backend and the same client, once with plain
` + "`reverse_proxy`" + ` and once with ` + "`agent_runs`" + ` before it, in turns, each time in a fresh process; medians. Frames are 120
bytes, one flush each. Only the ratios say something about another machine. Every frame of every stream was
checked: none was missing, doubled or out of order, on either side.

`

const outro = `
To repeat it on your machine:

    make bench-quick    # about three minutes, prints the table
    make bench          # all of it, writes this file

CPU time is that of the gateway process as the kernel's scheduler counted it; backend and client are processes of
their own on the same cores. Latency is from the write of a frame in the backend to its read in the client.
`

func (rep *report) markdown(plot string) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	fmt.Fprintf(&b, "%v.\n\n![agent_runs compared with plain reverse_proxy](%s)\n\n", rep.machine, plot)
	b.WriteString("| load | measure | plain | agent_runs | compared | goal | |\n|---|---|---|---|---|---|---|\n")
	for _, v := range rep.verdicts {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", v.scenario, v.goal.name,
			spread(v.value(v.plain), v.plainSpread), spread(v.value(v.ours), v.oursSpread), v.comparison(), v.bound(), mark(v.met()))
	}
	for _, e := range rep.extras {
		fmt.Fprintf(&b, "| %s | %s | - | %s | - | %s | %s |\n", e.scenario, e.name, e.value(), e.bound(), mark(e.met()))
	}
	b.WriteString(outro)
	return b.Bytes()
}

// spread adds the lowest and the highest round to a median.
func spread(median string, s [2]float64) string {
	return fmt.Sprintf("%s (%s-%s)", median, number(s[0]), number(s[1]))
}

// bar is what the plot program reads.
type bar struct {
	Label string
	Ratio float64
	Goal  float64
}

// plot draws the ratios. The program that does it is a module of its own.
func (rep *report) plot(ctx context.Context, path string) error {
	var bars []bar
	for _, v := range rep.verdicts {
		if !v.goal.added {
			bars = append(bars, bar{Label: v.goal.name + ", " + v.scenario, Ratio: v.figure(), Goal: v.goal.limit})
		}
	}
	in, err := json.Marshal(bars)
	if err != nil {
		return fmt.Errorf("drawing plot: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	target, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("drawing plot: %w", err)
	}
	draw := exec.CommandContext(ctx, "go", "run", ".", target)
	draw.Dir = filepath.Join(strings.TrimSpace(string(root)), "internal", "bench", "plot")
	draw.Stdin = bytes.NewReader(in)
	if text, err := draw.CombinedOutput(); err != nil {
		return fmt.Errorf("drawing plot: %w\n%s", err, text)
	}
	return nil
}
