package elastic

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Takes takes in what an access takes on hosts, where no setting has said it.
func (c *Core) Takes(d cost.Device) {
	if c.s.Takes == nil {
		c.s.Takes = &d
	}
}

// division is by what gates divide rows; nil where the policy does not divide them, or
// what accesses take is unknown.
func (r *round) division() *pb.AccessTime {
	if !r.c.mode.divides || r.c.s.Takes == nil {
		return nil
	}
	return plan.Access(divide.TakesOf(*r.c.s.Takes, float64(r.bytes()), r.c.s.MessageSeconds))
}

// divided is busiest where gates divide rows by what accesses take. An expert with fewer rows
// than steps has one in some of them.
func (r *round) divided(w *work, l layout) float64 {
	steps, experts := w.perStep(r.now), make([]divide.Expert, len(l))
	for e, load := range w.loads {
		for _, s := range l[e] {
			if s.want == warm {
				experts[e].Hosts = append(experts[e].Hosts, s.host)
			}
		}
		slices.Sort(experts[e].Hosts)
		divide.HomeFirst(experts[e].Hosts, e, len(r.hosts))
		if load > 0 && len(experts[e].Hosts) > 0 {
			experts[e].Rows = int(math.Ceil(load / steps))
		}
	}
	takes, busy := plan.Takes(r.division()).Device(1), make([]float64, len(r.hosts))
	for _, s := range divide.New(takes, 1, len(r.hosts)).Least(nil, experts) {
		seconds := takes.Seconds(cost.Access{Bytes: 1, Rows: s.Rows})
		busy[s.Host] += seconds * min(steps, w.loads[s.Expert])
	}
	return slices.Max(append(busy, 0))
}
