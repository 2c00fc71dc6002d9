package arena

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"gonum.org/v1/plot/plotter"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
)

// Write writes the report into a folder, which is made: report.json, lines.csv, claims.csv,
// gaps.csv, prefetching.csv, entropies.csv, online.csv, tables.md and report.html.
func (r *OffloadReport) Write(folder string) error {
	return writeFiles(folder, []file{
		{"report.json", asJSON(r)}, {"lines.csv", asCSV(r.Lines)}, {"claims.csv", asCSV(r.Claims)},
		{"gaps.csv", asCSV(r.Gaps)}, {"prefetching.csv", asCSV(r.Bounds)},
		{"entropies.csv", asCSV(r.Entropies)}, {"online.csv", table(r.onlineRows()).write},
		{"tables.md", r.writeTables}, {"report.html", r.writePage},
	})
}

//go:embed offload.html
var offloadText string

var offloadPage = template.Must(template.New("offload").Funcs(template.FuncMap{
	"ms":      func(v float64) string { return fmt.Sprintf("%.1f", v) },
	"percent": func(v float64) string { return fmt.Sprintf("%+.1f %%", 100*v) },
	"part":    func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
}).Parse(offloadText))

func (r *OffloadReport) writePage(w io.Writer) error {
	figures, err := r.figures()
	if err != nil {
		return err
	}
	return offloadPage.Execute(w, struct {
		*OffloadReport
		Figures []figure
	}{r, figures})
}

// drawn is a plot of what a part varies.
type drawnPart struct {
	part, title, x, y, words string
	by                       func(*OffloadLine) float64
	of                       func(*OffloadLine) float64
	turned                   bool // what is varied is upwards
}

func (r *OffloadReport) figures() (all []figure, err error) {
	budget := func(l *OffloadLine) float64 { return l.Budget }
	value := func(l *OffloadLine) float64 { return l.Value }
	var draws []func() (figure, error)
	for _, at := range r.places() {
		if at.routing != routingFitted && at.routing != routingRecorded {
			continue
		}
		for _, d := range []drawnPart{
			{partBudget, "TPOT by budget", "GB", "ms", "Time of a decode step by the memory budget (figure 11).", budget, tpot.of, false},
			{partBudget, "memory by TPOT", "ms", "GB", "Memory budget by the time of a decode step (figure 1b: figure 11 turned).", budget, tpot.of, true},
			{partBudget, "hits by budget", "GB", "part", "Experts that were there when rows came (figure 9).", budget, hits.of, false},
			{partBudget, "TTFT by budget", "GB", "ms", "Time of a prefill by the memory budget (figure 9).", budget, ttft.of, false},
			{partDistance, "TPOT by distance", "layers ahead", "ms", "Time of a decode step by the prediction distance (figure 13).", value, tpot.of, false},
			{partDistance, "hits by distance", "layers ahead", "part", "Hits by the prediction distance (figure 4).", value, hits.of, false},
			{partCapacity, "similarity by maps", "maps", "cosine", "Mean score of trajectory searches by the store's capacity (figure 14a).", value, func(l *OffloadLine) float64 { return l.Trajectory }, false},
			{partBatch, "TPOT by batch", "sequences", "ms", "Time of a decode step by the batch (figure 14b).", value, tpot.of, false},
		} {
			draws = append(draws, func() (figure, error) { return r.draw(at, d) })
		}
	}
	if all, err = drawn(draws); err != nil {
		return nil, err
	}
	for _, more := range []func() ([]figure, error){r.pictures, r.across, r.cdfs} {
		figures, err := more()
		if err != nil {
			return nil, err
		}
		all = append(all, figures...)
	}
	return all, nil
}

// draw draws a part's policies, each over what is varied, in the mean of seeds.
func (r *OffloadReport) draw(at offloadKey, d drawnPart) (figure, error) {
	var all []series
	counts := map[string]map[float64][]*OffloadLine{}
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.Part != d.part || l.Shape != at.shape || l.Routing != at.routing || l.Policy == offload.Unfetched {
			continue
		}
		if counts[l.Policy] == nil {
			counts[l.Policy] = map[float64][]*OffloadLine{}
		}
		x := d.by(l)
		if len(counts[l.Policy][x]) == 0 {
			all = added(all, l.Policy, x)
		}
		counts[l.Policy][x] = append(counts[l.Policy][x], l)
	}
	for i := range all {
		for j := range all[i].points {
			all[i].points[j].Y = meanOf(counts[all[i].name][all[i].points[j].X], d.of)
		}
	}
	if d.turned {
		all = turned(all)
	}
	return plotted(all, at.shape+", "+at.routing+": "+d.words, func() (template.HTML, error) {
		return lines(axes{at.shape + ": " + d.title, d.x, d.y, false}, all)
	})
}

// added has a point more in the series of a name.
func added(all []series, name string, x float64) []series {
	for i := range all {
		if all[i].name == name {
			all[i].points = append(all[i].points, plotter.XY{X: x})
			return all
		}
	}
	return append(all, series{name: name, points: plotter.XYs{{X: x}}})
}
