package routing

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Fit is a generator's parameters for a recording, with how far its figures are
// from the recording's.
type Fit struct {
	Params    Params
	Recorded  Figures // mean of layers
	Generated Figures
}

// NewFit fits parameters to the texts of a recording. The variances follow from
// the figures where normal numbers are log-normal weights; rounds of generating as
// many texts and measuring them correct for what differs: few experts, different
// slots.
func NewFit(s Shape, samples []Sample) (Fit, error) {
	if err := check(s, samples); err != nil {
		return Fit{}, err
	}
	figures := Measure(s, samples)
	f := Fit{Recorded: Mean(figures)}
	scale := Figures{1, 1, 1, 1, 1}
	for range rounds {
		f.Params = paramsOf(figures, scale)
		f.Generated = f.generate(s, samples)
		scale = Figures{
			scale.Common * corrected(f.Recorded.Common, f.Generated.Common), scale.Domain * corrected(f.Recorded.Domain, f.Generated.Domain),
			scale.Text * corrected(f.Recorded.Text, f.Generated.Text), scale.Neighbour * corrected(f.Recorded.Neighbour, f.Generated.Neighbour),
			scale.Layer * corrected(f.Recorded.Layer, f.Generated.Layer),
		}
	}
	return f, nil
}

const (
	rounds = 6
	// seeds are how many generators a figure is the mean of: one of 16 experts
	// alone is far from what its parameters say.
	seeds = 8
)

func check(s Shape, samples []Sample) error {
	if err := s.Check(); err != nil {
		return err
	}
	if len(samples) == 0 {
		return errors.New("the recording has no texts")
	}
	for i, t := range samples {
		if len(t.Choices)%(s.Layers*s.TopK) != 0 || t.Domain < 0 {
			return fmt.Errorf("text %d of the recording has %d choices, of domain %d; rows have %d", i, len(t.Choices), t.Domain, s.Layers*s.TopK)
		}
		if e := slices.IndexFunc(t.Choices, func(e uint16) bool { return int(e) >= s.Experts }); e >= 0 {
			return fmt.Errorf("text %d of the recording chooses expert %d of %d", i, t.Choices[e], s.Experts)
		}
	}
	return nil
}

// corrected is a cautious factor towards what is wanted.
func corrected(want, got float64) float64 {
	if want <= 0 || got <= 0 {
		return 1
	}
	return min(2, max(0.5, want/got))
}

// paramsOf are the parameters for figures, these being times the scales. Those of
// popularity are of each layer; how rows hang together is the same in all.
func paramsOf(figures []Figures, scale Figures) Params {
	all := Mean(figures)
	var p Params
	for _, f := range figures {
		common := math.Log1p(max(0, f.Common*scale.Common))
		domain := max(common, math.Log1p(max(0, f.Domain*scale.Domain)))
		text := max(domain, math.Log1p(max(0, f.Text*scale.Text)))
		p.Layers = append(p.Layers, Layer{
			Common: deviation(common), Domain: deviation(domain - common), Topic: deviation(text - domain),
			Neighbour: part(all.Neighbour * scale.Neighbour), Layer: part(all.Layer * scale.Layer),
		})
	}
	return p
}

func deviation(variance float64) float64 { return min(mostDeviation, math.Sqrt(variance)) }
func part(p float64) float64             { return min(1, max(0, p)) }

// generate are the figures of as many texts by generators with the parameters.
func (f Fit) generate(s Shape, samples []Sample) (m Figures) {
	domains := 1
	for _, t := range samples {
		domains = max(domains, t.Domain+1)
	}
	for seed := range uint64(seeds) {
		g, err := New(s, f.Params, domains, seed)
		if err != nil {
			return Figures{} // paramsOf keeps to what New takes
		}
		one := Mean(Measure(s, g.samples(samples)))
		m.Common += one.Common / seeds
		m.Domain += one.Domain / seeds
		m.Text += one.Text / seeds
		m.Neighbour += one.Neighbour / seeds
		m.Layer += one.Layer / seeds
	}
	return m
}

// samples are texts like those of a recording.
func (g *Generator) samples(like []Sample) []Sample {
	out := make([]Sample, len(like))
	for i, t := range like {
		rows := len(t.Choices) / g.Layers / g.TopK
		out[i] = Sample{Domain: t.Domain, Choices: make([]uint16, len(t.Choices))}
		g.Choices(Text{ID: uint64(i), Domain: t.Domain, Rows: rows}, func(l, r int, experts []uint16) {
			copy(out[i].Choices[(r*g.Layers+l)*g.TopK:], experts)
		})
	}
	return out
}

// Error is the mean of how far figures are off, as parts of the recording's; that
// of what domains share, which may be about 0, as a part of a domain's.
func (f Fit) Error() float64 {
	sum := 0.0
	for i, p := range f.pairs() {
		whole := p[0]
		if i == 0 {
			whole = f.Recorded.Domain
		}
		sum += math.Abs(p[1]-p[0]) / max(0.01, math.Abs(whole))
	}
	return sum / float64(len(f.pairs()))
}

func (f Fit) pairs() [][2]float64 {
	r, g := f.Recorded, f.Generated
	return [][2]float64{{r.Common, g.Common}, {r.Domain, g.Domain}, {r.Text, g.Text}, {r.Neighbour, g.Neighbour}, {r.Layer, g.Layer}}
}

// String is the fit for people.
func (f Fit) String() string {
	text := fmt.Sprintf("routing fitted with a mean error of %.1f%%:", 100*f.Error())
	for i, name := range []string{"common variance", "domain's", "text's", "neighbours", "layers"} {
		text += fmt.Sprintf(" %s %.3f (recorded %.3f)", name, f.pairs()[i][1], f.pairs()[i][0])
	}
	return text
}
