package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// machine is what a reader must know to judge the numbers.
type machine struct {
	cores     int
	goVersion string
	load      string
	took      time.Duration
	rounds    int
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores, %s/%s, %s, load average %s, rounds: %d, in %v",
		m.cores, runtime.GOOS, runtime.GOARCH, m.goVersion, m.load, m.rounds, m.took.Round(time.Second))
}

// report is what was found, ready to be shown.
type report struct {
	verdicts []verdict
	extras   []extra
	machine  machine
}

func newReport(res *results, m machine) *report {
	rep := &report{extras: res.extras, machine: m}
	for i := range res.compared {
		for _, g := range res.compared[i].scenario.goals {
			rep.verdicts = append(rep.verdicts, res.compared[i].judge(g))
		}
	}
	return rep
}

// print writes the report as a table for a terminal.
func (rep *report) print(out io.Writer) {
	fmt.Fprintf(out, "\nMedians; %v\n\n", rep.machine)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "load\tmeasure\tplain\tours\tours to plain\tgoal\t")
	for _, v := range rep.verdicts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.scenario, v.goal.name,
			v.value(v.plain), v.value(v.ours), v.comparison(), v.bound(), mark(v.met()))
	}
	for _, e := range rep.extras {
		fmt.Fprintf(t, "%s\t%s\t\t%s\t\t%s\t%s\n", e.scenario, e.name, e.value(), e.bound(), mark(e.met()))
	}
	t.Flush()
}

func mark(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func (v verdict) value(x float64) string { return withUnit(x, v.goal.unit) }

func (v verdict) comparison() string {
	if v.goal.added {
		return fmt.Sprintf("%+.2f %s", v.figure(), v.goal.unit)
	}
	return fmt.Sprintf("%.2f x", v.figure())
}

func (v verdict) bound() string {
	switch {
	case v.goal.added:
		return fmt.Sprintf("<= +%g %s", v.goal.limit, v.goal.unit)
	case v.goal.atLeast:
		return fmt.Sprintf(">= %g x", v.goal.limit)
	default:
		return fmt.Sprintf("<= %g x", v.goal.limit)
	}
}

func withUnit(x float64, unit string) string { return strings.TrimSpace(number(x) + " " + unit) }

// number shows three significant digits of anything.
func number(x float64) string {
	switch {
	case x >= 100 || x <= -100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10 || x <= -10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}
