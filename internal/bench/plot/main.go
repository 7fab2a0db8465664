// Command plot draws the comparison that bench measured: it reads JSON on
// stdin and writes an SVG to the file that it is given.
//
// It is a module of its own, because a chart library and its fonts have no
// place among the requirements of a Caddy module.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: plot out.svg < ratios.json")
		os.Exit(2)
	}
	if err := draw(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// bar is one ratio of ours to plain and the goal that it is judged by.
type bar struct {
	Label string
	Ratio float64
	Goal  float64
}

var (
	barColor  = color.RGBA{R: 0x1f, G: 0x6f, B: 0xb2, A: 0xff}
	goalColor = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	lineColor = color.RGBA{R: 0x77, G: 0x77, B: 0x77, A: 0xff}
)

var errNothing = errors.New("there is nothing to draw")

func draw(in io.Reader, path string) error {
	var bars []bar
	if err := json.NewDecoder(in).Decode(&bars); err != nil {
		return fmt.Errorf("reading ratios: %w", err)
	}
	if len(bars) == 0 {
		return errNothing
	}
	p, err := chart(bars)
	if err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	if err := p.Save(8*vg.Inch, vg.Length(len(bars))*0.55*vg.Inch+1.1*vg.Inch, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// chart lays the bars on their sides, the first on top.
func chart(bars []bar) (*plot.Plot, error) {
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.X.Label.Text = "agent_runs, where plain reverse_proxy is 1 (red: the goal)"
	p.X.Min = 0
	p.Y.Padding = vg.Points(4)
	values := make(plotter.Values, len(bars))
	names := make([]string, len(bars))
	for i, b := range bars {
		at := len(bars) - 1 - i
		values[at], names[at] = b.Ratio, b.Label
		p.X.Max = max(p.X.Max, 1.05*b.Ratio, 1.05*b.Goal)
	}
	rows, err := plotter.NewBarChart(values, vg.Points(16))
	if err != nil {
		return nil, err
	}
	rows.Horizontal, rows.Color, rows.LineStyle.Width = true, barColor, 0
	p.Add(rows)
	p.NominalY(names...)
	for i, b := range bars {
		at := float64(len(bars) - 1 - i)
		if err := addLine(p, goalColor, plotter.XYs{{X: b.Goal, Y: at - 0.4}, {X: b.Goal, Y: at + 0.4}}); err != nil {
			return nil, err
		}
	}
	return p, addLine(p, lineColor, plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(bars)) - 0.5}})
}

func addLine(p *plot.Plot, c color.Color, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, vg.Points(2)
	p.Add(line)
	return nil
}
