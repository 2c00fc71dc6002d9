package arena

import (
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// offloadConstant is assumed, or stands for what other machines have.
type offloadConstant struct {
	name string
	set  func(bed *offload.Testbed, d *offload.Delays, factor float64)
}

// assumed are those that are multiplied. Two are of the tier below, which the others do without.
func (b *offloadBench) assumed() []offloadConstant {
	below := func(set func(below *offload.Below, factor float64)) func(*offload.Testbed, *offload.Delays, float64) {
		return func(bed *offload.Testbed, _ *offload.Delays, f float64) {
			bed.Below = b.lowered().Below
			set(&bed.Below, f)
		}
	}
	return []offloadConstant{
		{"link bandwidth", func(bed *offload.Testbed, _ *offload.Delays, f float64) { bed.Link.Bandwidth *= f }},
		{"link latency", func(bed *offload.Testbed, _ *offload.Delays, f float64) { bed.Link.Latency *= f }},
		{"piece", func(bed *offload.Testbed, _ *offload.Delays, f float64) { bed.Piece *= f }},
		{"device", func(bed *offload.Testbed, _ *offload.Delays, f float64) {
			bed.Device = cost.Device{Timer: faster{bed.Device.Timer, f}, Call: bed.Device.Call / f}
		}},
		{"delays of predictions", func(_ *offload.Testbed, d *offload.Delays, f float64) {
			*d = offload.Delays{Gate: d.Gate * f, Learned: d.Learned * f, Counts: d.Counts * f, Trajectory: d.Trajectory * f, Semantic: d.Semantic * f}
		}},
		{"store's bandwidth", below(func(below *offload.Below, f float64) { below.Link.Bandwidth *= f })},
		{"store's latency", below(func(below *offload.Below, f float64) { below.Link.Latency *= f })},
	}
}

// faster is a device that takes a part of the time.
type faster struct {
	cost.Timer
	by float64
}

// Seconds is that part.
func (d faster) Seconds(a cost.Access) float64 { return d.Timer.Seconds(a) / d.by }

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
	for _, c := range b.assumed() {
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
