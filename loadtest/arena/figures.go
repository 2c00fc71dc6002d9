package arena

import (
	"html/template"
	"slices"

	"gonum.org/v1/plot/plotter"
)

// figure is a plot with its words.
type figure struct {
	Plot  template.HTML
	Words string
}

// figures are all plots of the report, in the order of the paper's.
func (r *Report) figures() (all []figure, err error) {
	var draws []func() (figure, error)
	for _, shape := range r.shapes() {
		for _, of := range []func(shape string) (figure, error){r.cdf, r.byDistance, r.byThreshold, r.parts} {
			draws = append(draws, func() (figure, error) { return of(shape) })
		}
	}
	return drawn(append(draws, r.costs, r.residents, r.replicas, r.accuracy))
}

// drawn are the figures that have data.
func drawn(draws []func() (figure, error)) (all []figure, err error) {
	for _, draw := range draws {
		f, err := draw()
		if err != nil {
			return nil, err
		}
		if f.Plot != "" {
			all = append(all, f)
		}
	}
	return all, nil
}

// cdf is like figures 8 and 9.
func (r *Report) cdf(shape string) (figure, error) {
	return r.cdfOf(partMain, shape, "layers' times", "CDF of a layer's time, each layer of each iteration; the long ones have prompts (figures 8, 9).")
}

// leastMS is where a logarithmic axis of times begins.
const leastMS = 0.01

// parts is like figure 17.
func (r *Report) parts(shape string) (figure, error) {
	return r.cdfOf(partAblation, shape, "without parts of MoEless", "MoEless without its predictor, scaler or placer (figure 17).")
}

func (r *Report) cdfOf(part, shape, title, words string) (figure, error) {
	var all []series
	for _, l := range r.Lines {
		if l.Part != part || l.Shape != shape {
			continue
		}
		s := series{name: l.Policy}
		for i, ms := range l.CDF[:cdfSteps] {
			s.points = append(s.points, plotter.XY{X: max(ms, leastMS), Y: float64(i) / cdfSteps})
		}
		all = append(all, s)
	}
	return plotted(all, words, func() (template.HTML, error) {
		return lines(axes{shape + ": " + title, "ms", "share of layers", true}, all)
	})
}

// plotted is a figure, or none without data.
func plotted(all []series, words string, draw func() (template.HTML, error)) (figure, error) {
	if len(all) == 0 {
		return figure{}, nil
	}
	p, err := draw()
	return figure{Plot: p, Words: words}, err
}

// byDistance is like figures 13 and 14.
func (r *Report) byDistance(shape string) (figure, error) {
	all := r.varied(partDistance, shape)
	return plotted(all, "Mean time of a layer by prediction distance (figures 13, 14).",
		func() (template.HTML, error) {
			return lines(axes{shape + ": prediction distance", "layers ahead", "ms", false}, all)
		})
}

// byThreshold is like figures 15 and 16.
func (r *Report) byThreshold(shape string) (figure, error) {
	all := r.varied(partCV, shape)
	replicas := series{name: "replicas a layer"}
	for _, l := range r.Lines {
		if l.Part == partCV && l.Shape == shape {
			replicas.points = append(replicas.points, plotter.XY{X: l.Value, Y: l.Replicas})
		}
	}
	if len(all) > 0 {
		all = append(all, replicas)
	}
	return plotted(all, "Mean time of a layer, and replicas, by the threshold of CV (figures 15, 16).",
		func() (template.HTML, error) {
			return lines(axes{shape + ": CV threshold", "CV", "ms, replicas", false}, all)
		})
}

// varied are the means of a part, a series for each policy.
func (r *Report) varied(part, shape string) (all []series) {
	for _, l := range r.Lines {
		if l.Part != part || l.Shape != shape {
			continue
		}
		at := slices.IndexFunc(all, func(s series) bool { return s.name == l.Policy })
		if at < 0 {
			at, all = len(all), append(all, series{name: l.Policy})
		}
		all[at].points = append(all[at].points, plotter.XY{X: l.Value, Y: l.Mean})
	}
	return all
}

// costs is like figure 10.
func (r *Report) costs() (figure, error) {
	return r.byPolicy("cost as the paper bills", "GB·s", "Cost of experts as the paper bills it (figure 10).", func(l *Line) float64 { return l.Cost })
}

func (r *Report) residents() (figure, error) {
	return r.byPolicy("cost as resident", "GB·s", "All memory for as long as it is held, keep-alive and loading included.", func(l *Line) float64 { return l.Resident })
}

func (r *Report) replicas() (figure, error) {
	return r.byPolicy("replicas", "replicas a layer", "Replicas of a layer, in the mean.", func(l *Line) float64 { return l.Replicas })
}

func (r *Report) byPolicy(title, y, words string, of func(*Line) float64) (figure, error) {
	var all []series
	for _, policy := range r.suite.names() {
		s := series{name: policy}
		for i, shape := range r.shapes() {
			if l := find(r.Lines, partMain, shape, routingFitted, policy); l != nil {
				s.points = append(s.points, plotter.XY{X: float64(i), Y: of(l)})
			}
		}
		if len(s.points) > 0 {
			all = append(all, s)
		}
	}
	return plotted(all, words, func() (template.HTML, error) { return bars(title, y, r.shapes(), all) })
}

// accuracy is like figure 11.
func (r *Report) accuracy() (figure, error) {
	var all []series
	for _, m := range r.Methods {
		at := slices.IndexFunc(all, func(s series) bool { return s.name == m.Method })
		if at < 0 {
			at, all = len(all), append(all, series{name: m.Method})
		}
		all[at].points = append(all[at].points, plotter.XY{X: float64(m.Distance), Y: m.Accuracy})
	}
	return plotted(all, "Accuracy of predictors on texts held out, by distance (figure 11).",
		func() (template.HTML, error) {
			return lines(axes{"predictors of the demo model", "layers ahead", "accuracy", false}, all)
		})
}
