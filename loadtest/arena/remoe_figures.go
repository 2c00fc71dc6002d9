package arena

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/switchyard/switchyard/loadtest/prompts"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
)

// RemoeFigure is a figure of the paper, of a shape, as numbers.
type RemoeFigure struct {
	Figure string         `json:"figure"`
	Shape  string         `json:"shape"`
	Title  string         `json:"title"`
	X      string         `json:"x"`
	Y      string         `json:"y"`
	Series []RemoeSeries  `json:"series,omitempty"`
	Bars   []RemoeBillBar `json:"bars,omitempty"`
	Words  string         `json:"words"`

	names []string // of the places on the axis, where these are no numbers
}

// RemoeSeries is a line of a figure.
type RemoeSeries struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// RemoeBillBar is memory that is billed under a policy.
type RemoeBillBar struct {
	Policy string `json:"policy"`
	rented.Bar
}

// figures are those of the lab's shape. They cost little beside the rest, and one seed has them.
func (l *rentedLab) figures() error {
	system, err := l.shape.System(l.conditions())
	if err != nil {
		return err
	}
	for _, draw := range []func(*serverless.System) error{l.gantt, l.similar, l.byRemote, l.byLength, l.byMemory} {
		if err := draw(system); err != nil {
			return err
		}
	}
	return l.ctx.Err()
}

func (l *rentedLab) figure(number, title, x, y, words string) RemoeFigure {
	return RemoeFigure{Figure: number, Shape: l.shape.Name, Title: l.shape.Name + ": " + title, X: x, Y: y, Words: words + " (" + l.device() + ")"}
}

// billedTokens are the output tokens that figure 1 shows.
const billedTokens = 3

// gantt is figure 1.
func (l *rentedLab) gantt(system *serverless.System) error {
	o, err := rented.Objective(system, l.served(), variedSLO)
	if err != nil {
		return err
	}
	run := &rented.Run{System: system, SLO: o, Decided: rented.Decided, Foretold: l.foretold, Seed: l.seed}
	f := l.figure("1", "billed memory of a request", "seconds from when all has started", "",
		fmt.Sprintf("Memory that is billed while a request's prompt and %d tokens are served: all of it but functions', which are billed while they run; with an SLO of %d times MIX", billedTokens, variedSLO))
	for _, p := range rented.Policies(l.scale) {
		if p.Name == "exact" || p.Name == "remoe-printed" {
			continue
		}
		bars, err := run.Billed(p, &l.served()[0], billedTokens)
		if err != nil {
			return err
		}
		for _, b := range bars {
			f.Bars = append(f.Bars, RemoeBillBar{p.Name, b})
		}
	}
	l.drawn = append(l.drawn, f)
	return nil
}

// similar is figure 3, of all pairs of a request and a prompt of the past.
func (l *rentedLab) similar(*serverless.System) error {
	set := l.settings()
	seen := func(n int, of func(i int) *rented.Served) (all []prompts.Seen) {
		for i := range n {
			all = append(all, prompts.Seen{Prompt: of(i).Prompt})
		}
		return all
	}
	past := seen(len(l.texts.Past), func(i int) *rented.Served { return &rented.Served{Prompt: l.texts.Past[i]} })
	p := prompts.Compare(l.shape.Name, set, past, seen(len(l.served()), func(i int) *rented.Served { return &l.served()[i] }))
	f := l.figure("3", "similarity and divergence of prompts", "soft cosine similarity", "JS divergence in bits",
		fmt.Sprintf("%d pairs of generated texts, in twentieths by similarity; both correlate by %.3f. switchyard sps eval has pairs of real texts", p.Pairs, p.Pearson))
	s := RemoeSeries{Name: "pairs"}
	for _, b := range p.Bins {
		s.X, s.Y = append(s.X, b.Similarity), append(s.Y, b.JS)
	}
	f.Series = []RemoeSeries{s}
	l.drawn = append(l.drawn, f)
	return nil
}

// byRemote is figure 4.
func (l *rentedLab) byRemote(*serverless.System) error {
	f := l.figure("4", "time of a token's experts by the share of remote ones", "share of remote experts", "ms in a layer", "With as many processors on the host as in functions")
	for _, free := range []bool{false, true} {
		c := l.conditions()
		c.Any = free
		system, err := l.shape.System(c)
		if err != nil {
			return err
		}
		for _, cpus := range []float64{5, 10} {
			shares, seconds := rented.ByRemote(system, cpus)
			name := fmt.Sprintf("%.0f processors", cpus)
			if free {
				name += ", all of them for a row"
			}
			f.Series = append(f.Series, RemoeSeries{name, shares, milliseconds(seconds)})
			if cpus == 5 && !free {
				f.Words += fmt.Sprintf("; a line through the first explains %.3f of its variance", straight(shares, seconds))
			}
		}
	}
	l.drawn = append(l.drawn, f)
	return nil
}

func milliseconds(seconds []float64) []float64 {
	out := slices.Clone(seconds)
	for i := range out {
		out[i] *= 1e3
	}
	return out
}

// straight is R² of the line through points.
func straight(x, y []float64) float64 {
	n := float64(len(x))
	var mx, my, xx, xy, yy float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	for i := range x {
		xx, xy, yy = xx+(x[i]-mx)*(x[i]-mx), xy+(x[i]-mx)*(y[i]-my), yy+(y[i]-my)*(y[i]-my)
	}
	if xx == 0 || yy == 0 {
		return 1
	}
	return xy * xy / (xx * yy)
}

// lengths of figure 5: tokens in and out. The last is the median request of Azure's code trace.
var figureLengths = [][2]int{{32, 50}, {128, 50}, {32, 200}, {128, 200}, {512, 200}, {2048, 28}}

// byLength is figure 5.
func (l *rentedLab) byLength(system *serverless.System) error {
	f := l.figure("5", "prefill and decode", "tokens in and out", "seconds", "All experts on the host, routing as of all prompts in the mean. The paper takes prefill to be 0.1 of decode at most")
	prefill, decode := RemoeSeries{Name: "prefill"}, RemoeSeries{Name: "decode"}
	average, most, at := l.store.Average(), 0.0, ""
	for i, n := range figureLengths {
		p, d, err := rented.Times(system, average, n[0], n[1]-1)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%d, %d", n[0], n[1])
		f.names = append(f.names, name)
		prefill.X, prefill.Y = append(prefill.X, float64(i)), append(prefill.Y, p)
		decode.X, decode.Y = append(decode.X, float64(i)), append(decode.Y, d)
		if p/d > most {
			most, at = p/d, name
		}
	}
	f.Words += fmt.Sprintf("; here it is up to %.2f of it (%s)", most, at)
	f.Series = []RemoeSeries{prefill, decode}
	l.drawn = append(l.drawn, f)
	return nil
}

// byMemory is figure 6.
func (l *rentedLab) byMemory(system *serverless.System) error {
	f := l.figure("6", "time of a token's experts by memory", "GB of the function, a processor each", "ms in a layer", "By the platform's profile")
	memory, seconds, fit, err := rented.ByMemory(system)
	f.Series = []RemoeSeries{{"profile", memory, milliseconds(seconds)}}
	if err != nil {
		f.Words += fmt.Sprintf("; there is no fit: %v", err)
	} else {
		curve := RemoeSeries{Name: "fit"}
		for _, y := range memory {
			curve.X, curve.Y = append(curve.X, y), append(curve.Y, 1e3*fit.At(y))
		}
		f.Series = append(f.Series, curve)
		f.Words += fmt.Sprintf("; the fit is %.3g·exp(-%.4g·y) + %.3g s, R² %.3f (the paper has θ2 = 11.8665 for GPT2-moe and 2.4363 for DeepSeek-V2-Lite)", fit.Theta1, fit.Theta2, fit.Theta3, fit.R2)
	}
	l.drawn = append(l.drawn, f)
	return nil
}

// draw makes the figure's picture.
func (f *RemoeFigure) draw() (figure, error) {
	words := fmt.Sprintf("%s (figure %s). %s.", f.Title, f.Figure, f.Words)
	switch {
	case len(f.Bars) > 0:
		drawn, err := f.rows()
		return figure{drawn, words}, err
	case len(f.names) > 0:
		drawn, err := bars(f.Title, f.Y, f.names, f.points())
		return figure{drawn, words}, err
	}
	return plotted(f.points(), words, func() (template.HTML, error) {
		return lines(axes{title: f.Title, x: f.X, y: f.Y}, f.points())
	})
}

func (f *RemoeFigure) points() (all []series) {
	for _, s := range f.Series {
		one := series{name: s.Name}
		for i := range s.X {
			one.points = append(one.points, plotter.XY{X: s.X[i], Y: s.Y[i]})
		}
		all = append(all, one)
	}
	return all
}

// rows draws bars of times, a row for each policy and memory, thicker where there is more memory.
func (f *RemoeFigure) rows() (template.HTML, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = f.Title, f.X
	most := 0.0
	var names []string
	for _, b := range f.Bars {
		most = max(most, b.GB)
		if name := b.Policy + " " + b.Row; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Reverse(names) // the first on top
	for _, b := range f.Bars {
		y := float64(slices.Index(names, b.Policy+" "+b.Row))
		line, err := plotter.NewLine(plotter.XYs{{X: b.From, Y: y}, {X: b.To, Y: y}})
		if err != nil {
			return "", fmt.Errorf("drawing %q: %w", f.Title, err)
		}
		line.Color, line.Width = colors[map[string]int{"GPU": 1, "host": 2, "functions": 4}[b.Row]], vg.Points(1+7*math.Sqrt(b.GB/most))
		p.Add(line)
	}
	p.NominalY(names...)
	return svg(p)
}
