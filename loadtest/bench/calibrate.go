package bench

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Calls measures what a device takes for calls of one expert, of half a layer's experts and
// of all of them, each with so many rows: the median of several calls. What it measures is
// what pkg/policy/cost fits a device's constants to.
func (b *Bench) Calls(rows []int) (all []cost.Measurement, err error) {
	m, on := b.settings.Model, b.settings.Devices.Experts
	layer, err := firstMoE(m.Spec)
	if err != nil {
		return nil, err
	}
	bytes, err := on.Size(forward.ExpertID{Layer: layer})
	if err != nil {
		return nil, err
	}
	for _, experts := range accessCounts(m.Spec.Experts) {
		for _, n := range rows {
			b.settings.Progress("%d experts with %d rows each…", experts, n)
			c := newCall(m.Spec, layer, experts, n)
			seconds, err := c.median(on, b.settings.Seconds/10)
			if err != nil {
				return nil, err
			}
			all = append(all, cost.Measurement{Accesses: experts, Access: cost.Access{Bytes: float64(bytes), Rows: n}, Seconds: seconds})
		}
	}
	return all, nil
}

func firstMoE(spec model.Spec) (int, error) {
	for l := range spec.Layer {
		if spec.Layer[l].MoE {
			return l, nil
		}
	}
	return 0, fmt.Errorf("the model has no experts; a profile is of what experts take")
}

// accessCounts are one expert, half of them, and all.
func accessCounts(experts int) []int {
	counts := []int{1}
	for _, n := range []int{experts / 2, experts} {
		if n > counts[len(counts)-1] {
			counts = append(counts, n)
		}
	}
	return counts
}

// call is one call of a device.
type call struct {
	in      forward.Routed
	out     []float32
	scratch forward.ExpertScratch
}

// newCall asks for so many rows of each of a layer's first experts; an expert's rows come
// in the order of rows, as a dispatch has them.
func newCall(spec model.Spec, layer, experts, rows int) *call {
	r := rand.New(rand.NewPCG(Seed, uint64(rows)))
	c := &call{in: forward.Routed{Layer: layer, X: make([]float32, rows*spec.Hidden)}}
	for i := range c.in.X {
		c.in.X[i] = float32(r.NormFloat64())
	}
	for row := range rows {
		for e := range experts {
			c.in.Source, c.in.Expert, c.in.Weight = append(c.in.Source, uint32(row)), append(c.in.Expert, uint32(e)), append(c.in.Weight, 1)
		}
	}
	c.out = make([]float32, rows*experts*spec.Hidden)
	return c
}

// median is that of at least minLayerSteps calls, and of about so many seconds' worth.
func (c *call) median(on device.Device, seconds float64) (float64, error) {
	var times []float64
	for began := time.Now(); len(times) <= minLayerSteps || since(began) < seconds; {
		from := time.Now()
		if err := on.Compute(c.in, c.out, &c.scratch); err != nil {
			return 0, fmt.Errorf("computing %d rows of experts: %w", len(c.in.Source), err)
		}
		times = append(times, since(from))
	}
	return median(times[1:]), nil
}

// Profile is this machine's processor with the model's experts: the roofline that comes
// nearest to what Calls measured, the curve that does, and how far off
// both are, as the root of the mean squared relative error.
//
// A small expert's weights stay in the processor's caches, so that no number of rows is few
// enough for reading to be what takes longest. Reading is then taken to be as fast as the
// shortest access shows that it is at least.
func (b *Bench) Profile(rows []int) (p *profiles.Profile, roofline, curve float64, err error) {
	measured, err := b.Calls(rows)
	if err != nil {
		return nil, 0, 0, err
	}
	element := float64(weightBytes)
	fit, call, err := cost.Fit(element, measured)
	read := "measured: bench --rows, the roofline nearest to calls of experts"
	switch {
	case errors.Is(err, cost.ErrOneSide):
		fit.Bandwidth = fastest(measured)
		read = "measured: bench --rows, at least so much, as an access of one row takes no longer; the weights stay in caches"
	case err != nil:
		return nil, 0, 0, fmt.Errorf("fitting a device to %d calls: %w", len(measured), err)
	}
	off := cost.Error(cost.Device{Timer: fit, Call: call}, measured)
	how := fmt.Sprintf("measured: bench --rows, with an error of %.0f %%", 100*off)
	p = &profiles.Profile{
		Device: "cpu", Experts: b.settings.Model.Name,
		Read: profiles.Number{Value: fit.Bandwidth, Source: read}, Rate: profiles.Number{Value: fit.Rate, Source: how},
		Element: profiles.Number{Value: element, Source: "bf16"}, Access: profiles.Number{Value: fit.Overhead, Source: how},
		Call: profiles.Number{Value: call, Source: how}, Alpha: profiles.Number{Value: fit.Row(measured[0].Bytes), Source: how},
		Beta:        profiles.Number{Source: "rows are in the processor's memory already"},
		ExpertBytes: profiles.Number{Value: measured[0].Bytes, Source: "counted"},
		MemoryBytes: profiles.Number{Value: float64(len(b.settings.Model.Spec.Layer)*b.settings.Model.Spec.Experts) * measured[0].Bytes, Source: "as much as all experts take"},
		Bandwidth:   profiles.Number{Value: cmp.Or(b.machine.bandwidth, fit.Bandwidth), Source: "measured: the machine's memory"},
		ColdStart:   profiles.Number{Source: "experts are read in place"},
	}
	p.Curve = &profiles.Curve{Points: points(measured, call), Source: "measured: bench --rows, nearest to calls of experts"}
	if err := p.Take(profiles.Measured); err != nil {
		return nil, 0, 0, err
	}
	return p, off, cost.Error(p.Compute(), measured), p.Take(profiles.Roofline)
}

// points are what an access takes, by its rows: what is nearest to all calls with so many,
// by the least sum of squared relative errors.
func points(measured []cost.Measurement, call float64) (all []cost.Point) {
	of := map[int][2]float64{} // of each number of rows: share·rest, and share²
	for _, m := range measured {
		share := float64(m.Accesses) / m.Seconds
		sums := of[m.Rows]
		of[m.Rows] = [2]float64{sums[0] + share*(1-call/m.Seconds), sums[1] + share*share}
	}
	for _, rows := range slices.Sorted(maps.Keys(of)) {
		all = append(all, cost.Point{Rows: rows, Seconds: max(least, of[rows][0]/of[rows][1])})
	}
	return all
}

// least is what no access is below.
const least = 1e-9

// weightBytes are those of one parameter as the processor's kernels hold it.
const weightBytes = 2

// fastest is the most bytes a second that an access of one row shows.
func fastest(measured []cost.Measurement) (most float64) {
	for _, m := range measured {
		most = max(most, float64(m.Accesses)*m.Bytes/m.Seconds)
	}
	return most
}
