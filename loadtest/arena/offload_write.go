package arena

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"gonum.org/v1/plot/plotter"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
)

// Write writes the report into a folder, which is made: report.json, lines.csv, claims.csv,
// gaps.csv, prefetching.csv, entropies.csv, online.csv, tables.md and report.html.
func (r *OffloadReport) Write(folder string) error {
	return writeFiles(folder, []file{
		{"report.json", r.writeJSON}, {"lines.csv", table(r.lineRows()).write}, {"claims.csv", table(r.claimRows()).write},
		{"gaps.csv", table(r.gapRows()).write}, {"prefetching.csv", table(r.boundRows()).write},
		{"entropies.csv", table(r.entropyRows()).write}, {"online.csv", table(r.onlineRows()).write},
		{"tables.md", r.writeTables}, {"report.html", r.writePage},
	})
}

func (r *OffloadReport) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

func (r *OffloadReport) lineRows() [][]string {
	rows := [][]string{{
		"part", "shape", "routing", "policy", "budget_gb", "value", "constant", "seed", "fits", "ttft_ms", "tpot_ms", "hits", "late", "hits_prefill", "recall", "stall_ms", "floor_ms",
		"moved_mb", "prefetched_used_gb", "prefetched_late_gb", "prefetched_wasted_gb", "similarity_semantic", "similarity_trajectory", "pearson", "pearson_semantic", "links_ms", "predicting_ms", "loads",
	}}
	for _, l := range r.Lines {
		row := []string{l.Part, l.Shape, l.Routing, l.Policy, number(l.Budget), number(l.Value), l.Constant, strconv.FormatUint(l.Seed, 10), strconv.FormatBool(l.Fits)}
		for _, v := range []float64{l.TTFT, l.TPOT, l.Hits, l.Late, l.Prefill, l.Recall, l.Stall, l.Floor, l.Loads, l.Used, l.Overdue, l.Wasted, l.Semantic, l.Trajectory, l.Pearson, l.PearsonSemantic, l.Links, l.Predicting, float64(l.Loaded)} {
			row = append(row, number(v))
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *OffloadReport) claimRows() [][]string {
	rows := [][]string{{"shape", "routing", "budget_gb", "policy", "what", "against", "value", "baseline", "change", "low", "high", "paper"}}
	for _, c := range r.Claims {
		row := []string{c.Shape, c.Routing, number(c.Budget), c.Policy, c.What, c.Against}
		for _, v := range []float64{c.Ours, c.Theirs, c.Change, c.Low, c.High, c.Paper} {
			row = append(row, number(v))
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *OffloadReport) gapRows() [][]string {
	rows := [][]string{{"shape", "routing", "budget_gb", "policy", "tpot_ms", "best_baseline", "best_baseline_ms", "limit_ms", "floor_ms", "closed"}}
	for _, g := range r.Gaps {
		rows = append(rows, []string{g.Shape, g.Routing, number(g.Budget), g.Policy, number(g.TPOT), g.Best, number(g.BestTPOT), number(g.Limit), number(g.Floor), number(g.Closed)})
	}
	return rows
}

func (r *OffloadReport) boundRows() [][]string {
	rows := [][]string{{"shape", "routing", "budget_gb", "batch", "policy", "against", "tpot_times", "low", "high", "wasted_gb", "moved_times"}}
	for _, b := range r.Bounds {
		rows = append(rows, []string{b.Shape, b.Routing, number(b.Budget), number(b.Batch), b.Policy, b.Against, number(b.Times), number(b.Low), number(b.High), number(b.Wasted), number(b.Unneeded)})
	}
	return rows
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
			f, err := r.draw(at, d)
			if err != nil {
				return nil, err
			}
			if f.Plot != "" {
				all = append(all, f)
			}
		}
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
