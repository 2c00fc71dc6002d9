package bursts

import (
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// splits decides for the layers of steps.
type splits struct {
	Settings
	pair  brownout.Pair
	one   brownout.Splitter
	count [2][]int32 // of a layer
	both  []int32
	rows  []int
}

// spent is what a step took and did.
type spent struct {
	seconds, experts           float64 // in all; of the experts
	before, after, total, kept int
}

// step is what a step with these loads takes, at the thresholds. copies divide the accesses.
func (p *splits) step(loads *[2][]uint32, prompts int, thresholds [2]int, copies float64) (s spent) {
	for l := range p.Shape.Layers {
		p.fill(*loads, l)
		s.experts += p.layer(l, prompts > 0, thresholds, &s) / copies
	}
	s.seconds = p.Device.Fixed + p.Device.Prompt*float64(prompts) + s.experts
	return s
}

// layer splits the rows in p.count.
func (p *splits) layer(l int, prompts bool, thresholds [2]int, s *spent) float64 {
	if p.Control == Ahead && prompts { // as attention stamps it
		thresholds[Decode] = min(thresholds[Decode], thresholds[Prefill])
	}
	set := p.settings(l, thresholds)
	if p.Control == Ahead {
		d, _, err := p.pair.Split(set, [2]brownout.Rows{{Count: p.count[0]}, {Count: p.count[1]}}, nil)
		if err != nil {
			panic(err) // Check has seen the settings
		}
		s.add(d[:], accessed(p.count[:]))
		p.rows = accesses(p.rows[:0], d[:], p.count[:])
	} else {
		phase := Decode
		if prompts {
			phase = Prefill
		}
		p.both = append(p.both[:0], p.count[0]...)
		for e, n := range p.count[1] {
			p.both[e] += n
		}
		d, err := p.one.Split(set[phase], brownout.Rows{Count: p.both})
		if err != nil {
			panic(err) // Check has seen the settings
		}
		s.add([]*brownout.Decision{d}, d.Before)
		p.rows = accesses(p.rows[:0], []*brownout.Decision{d}, [][]int32{p.both})
	}
	s.after += len(p.rows)
	return p.Device.layer(p.rows)
}

func (s *spent) add(d []*brownout.Decision, before int) {
	s.before += before
	for _, one := range d {
		s.total += one.Total
		s.kept += one.Kept
	}
}

// accessed counts experts that have rows.
func accessed(count [][]int32) (n int) {
	for e := range count[0] {
		if count[0][e]+count[1][e] > 0 {
			n++
		}
	}
	return n
}

// points is how finely a curve is told.
const points = 21

// curve is a step's accesses by the threshold of one phase, as its loads were; those of a phase may be nil.
func (p *splits) curve(loads [2][]uint32, phase int, thresholds [2]int) brownout.Curve {
	c := make(brownout.Curve, points)
	for l := range p.Shape.Layers {
		p.fill(loads, l)
		if p.exempt(l) {
			for i := range c {
				c[i] += float64(accessed(p.count[:]))
			}
			continue
		}
		for i := range c {
			at := thresholds
			at[phase] = brownout.PointOf(i, points)
			if phase == Prefill {
				at[Decode] = at[Prefill] // as gates tell it
			}
			_, n, err := p.pair.Split(p.settings(l, at), [2]brownout.Rows{{Count: p.count[0]}, {Count: p.count[1]}}, nil)
			if err != nil {
				panic(err) // Check has seen the settings
			}
			c[i] += float64(n)
		}
	}
	return c
}

// fill has the rows of a layer in p.count.
func (p *splits) fill(loads [2][]uint32, layer int) {
	n := p.Shape.Experts
	for i := range p.count {
		p.count[i] = append(p.count[i][:0], make([]int32, n)...)
		if loads[i] == nil {
			continue
		}
		for e, rows := range loads[i][layer*n : (layer+1)*n] {
			p.count[i][e] = int32(rows)
		}
	}
}

// settings are those of a layer's two phases.
func (p *splits) settings(layer int, thresholds [2]int) (set [2]brownout.Settings) {
	for i := range set {
		set[i] = brownout.Settings{Strategy: p.Strategy, Way: p.Way, Threshold: thresholds[i]}
		if p.exempt(layer) {
			set[i].Threshold = brownout.One
		}
	}
	return set
}
