package arena

import "github.com/switchyard/switchyard/pkg/sim/offload"

// offloadConstants are those that are assumed, or stand for what other machines have.
var offloadConstants = []struct {
	name string
	set  func(bed *offload.Testbed, d *offload.Delays, factor float64)
}{
	{"link bandwidth", func(bed *offload.Testbed, _ *offload.Delays, f float64) { bed.Link.Bandwidth *= f }},
	{"link latency", func(bed *offload.Testbed, _ *offload.Delays, f float64) { bed.Link.Latency *= f }},
	{"piece", func(bed *offload.Testbed, _ *offload.Delays, f float64) { bed.Piece *= f }},
	{"delays of predictions", func(_ *offload.Testbed, d *offload.Delays, f float64) {
		*d = offload.Delays{Gate: d.Gate * f, Learned: d.Learned * f, Counts: d.Counts * f, Trajectory: d.Trajectory * f, Semantic: d.Semantic * f}
	}},
}

// constants are multiplied.
func (b *offloadBench) constants() error {
	policies, err := some(offload.OnDemand, "mixtral-offloading", "promoe", "moe-infinity", offload.FMoE, offload.Ours, offload.Floor, offload.Limit)
	if err != nil {
		return err
	}
	base, err := b.lab(b.bed, b.Texts.Served, 1)
	if err != nil {
		return err
	}
	for _, c := range offloadConstants {
		for _, factor := range factors {
			lab := *base
			c.set(&lab.Testbed, &lab.Delays, factor)
			from := len(b.lines)
			if err := b.each(&lab, partConstants, policies, b.middle(), factor); err != nil {
				return err
			}
			for i := range b.lines[from:] {
				b.lines[from+i].Constant = c.name
			}
		}
	}
	return nil
}
