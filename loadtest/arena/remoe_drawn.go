package arena

import (
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/serverless/rented"
)

// The paper's figures 8 to 11 and table I, of a report's lines.

// drawLines adds them for each shape, in the order of lines: what was not run is not drawn.
func (r *RemoeReport) drawLines() {
	var names []string
	for i := range r.Lines {
		if name := r.Lines[i].Shape; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, shape := range names {
		for _, draw := range []func(shape string) (RemoeFigure, bool){r.foretold, r.each, r.ratios, r.starts, r.paying} {
			if f, some := draw(shape); some {
				r.Figures = append(r.Figures, f)
			}
		}
	}
	if f, err := tokenSizes(names); err == nil {
		r.Figures = append(r.Figures, f)
	}
}

func (r *RemoeReport) figure(number, shape, title, x, y, words string) RemoeFigure {
	return RemoeFigure{Figure: number, Shape: shape, Title: shape + ": " + title, X: x, Y: y, Words: words + " (simulated)"}
}

// means are the lines of a part of a shape, one a policy, in the mean of seeds.
func (r *RemoeReport) means(shape, part string, x, y func(*RemoeLine) float64) (all []RemoeSeries) {
	seen := map[string]map[float64]int{} // by policy and place
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.Shape != shape || l.Part != part {
			continue
		}
		at := slices.IndexFunc(all, func(s RemoeSeries) bool { return s.Name == l.Policy })
		if at < 0 {
			at, seen[l.Policy] = len(all), map[float64]int{}
			all = append(all, RemoeSeries{Name: l.Policy})
		}
		s, place := &all[at], slices.Index(all[at].X, x(l))
		if place < 0 {
			place = len(s.X)
			s.X, s.Y = append(s.X, x(l)), append(s.Y, 0)
		}
		n := seen[l.Policy][x(l)]
		s.Y[place] = (s.Y[place]*float64(n) + y(l)) / float64(n+1)
		seen[l.Policy][x(l)] = n + 1
	}
	return all
}

// alone has a place for each policy instead of a line.
func (f *RemoeFigure) alone(name string, all []RemoeSeries) {
	one := RemoeSeries{Name: name}
	for i, s := range all {
		f.names = append(f.names, s.Name)
		one.X, one.Y = append(one.X, float64(i)), append(one.Y, s.Y[0])
	}
	f.Series = append(f.Series, one)
}

// foretold is figure 8.
func (r *RemoeReport) foretold(shape string) (f RemoeFigure, some bool) {
	f = r.figure("8", shape, "how far what is foretold is from what comes", "", "JS divergence in bits", "Generated texts, in the mean of requests and seeds; switchyard sps eval has real ones")
	all := r.means(shape, partPrediction, func(*RemoeLine) float64 { return 0 }, func(l *RemoeLine) float64 { return l.JS })
	f.alone("divergence", all)
	return f, len(all) > 0
}

// each is figure 9: the cost of each request, with one objective.
func (r *RemoeReport) each(shape string) (f RemoeFigure, some bool) {
	f = r.figure("9", shape, "cost of each request", "request", "dollars for 1,000", fmt.Sprintf("With an SLO of %d times MIX, of one seed", variedSLO))
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.Shape != shape || l.Part != partSLO || l.SLO != variedSLO || l.Seed != r.Seed {
			continue
		}
		s := RemoeSeries{Name: l.Policy}
		for q, cost := range r.costs[i] {
			s.X, s.Y = append(s.X, float64(q+1)), append(s.Y, 1e3*cost)
		}
		f.Series = append(f.Series, s)
	}
	return f, len(f.Series) > 0
}

// ratios is figure 10.
func (r *RemoeReport) ratios(shape string) (f RemoeFigure, some bool) {
	f = r.figure("10", shape, "cost by the length of answers", "tokens of an answer", "dollars for 1,000", fmt.Sprintf("Prompts of the first 500 characters, with an SLO of %d times MIX", variedSLO))
	f.Series = r.means(shape, partLengths, func(l *RemoeLine) float64 { return float64(l.Output + 1) }, func(l *RemoeLine) float64 { return 1e3 * l.Cost })
	return f, len(f.Series) > 0
}

// starts is figure 11.
func (r *RemoeReport) starts(shape string) (f RemoeFigure, some bool) {
	f = r.figure("11", shape, "cold start", "", "seconds", fmt.Sprintf("Until all that the first token needs has started, planning included, with an SLO of %d times MIX", variedSLO))
	var all []RemoeSeries
	for _, s := range r.means(shape, partSLO, func(l *RemoeLine) float64 { return l.SLO }, func(l *RemoeLine) float64 { return l.Start }) {
		if at := slices.Index(s.X, variedSLO); at >= 0 {
			all = append(all, RemoeSeries{Name: s.Name, Y: s.Y[at:]})
		}
	}
	f.alone("cold start", all)
	return f, len(all) > 0
}

// paying is the cost by the price of the GPU's memory, and from when on Remoe pays.
func (r *RemoeReport) paying(shape string) (f RemoeFigure, some bool) {
	f = r.figure("prices", shape, "cost by the price of the GPU's memory", "times the price of hosts' memory", "dollars for 1,000", fmt.Sprintf("With an SLO of %d times MIX", variedSLO))
	f.Series = r.means(shape, partPrice, func(l *RemoeLine) float64 { return l.Ratio }, func(l *RemoeLine) float64 { return 1e3 * l.Cost })
	for _, s := range f.Series {
		sortByX(&s)
	}
	at := slices.IndexFunc(f.Series, func(s RemoeSeries) bool { return s.Name == "remoe" })
	for _, against := range f.Series {
		if at >= 0 && slices.Contains(remoeAgainst, against.Name) {
			f.Words += "; remoe costs less than " + against.Name + " " + where(f.Series[at], against)
		}
	}
	return f, len(f.Series) > 0
}

func sortByX(s *RemoeSeries) {
	order := make([]int, len(s.X))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if s.X[a] < s.X[b] {
			return -1
		}
		return 1
	})
	x, y := slices.Clone(s.X), slices.Clone(s.Y)
	for i, at := range order {
		s.X[i], s.Y[i] = x[at], y[at]
	}
}

// where says at which places one line is below another one.
func where(a, b RemoeSeries) string {
	var below []string
	for i, x := range a.X {
		if at := slices.Index(b.X, x); at >= 0 && a.Y[i] < b.Y[at] {
			below = append(below, fmt.Sprint(x))
		}
	}
	switch len(below) {
	case 0:
		return "at none of these prices"
	case len(a.X):
		return "at each of these prices"
	}
	return "at " + strings.Join(below, ", ")
}

// tokenSizes is table I: what a token takes on its way, and how many an invocation takes.
func tokenSizes(names []string) (f RemoeFigure, err error) {
	f = RemoeFigure{Figure: "table I", Shape: "all", Title: "what a token takes on its way to an expert", Y: "KiB", Words: "In bfloat16. An invocation of 6 MB takes"}
	s := RemoeSeries{Name: "token"}
	for i, name := range names {
		shape, err := rented.Open(name)
		if err != nil {
			return f, err
		}
		f.names = append(f.names, name)
		s.X, s.Y = append(s.X, float64(i)), append(s.Y, shape.Token/1024)
		f.Words += fmt.Sprintf(" %.0f rows of %s,", 6e6/shape.Token, name)
	}
	f.Words = strings.TrimSuffix(f.Words, ",")
	f.Series = []RemoeSeries{s}
	return f, nil
}
