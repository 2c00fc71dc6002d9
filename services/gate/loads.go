package gate

import (
	"context"
	"maps"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// loadMeter tells how many rows each microbatch gives to each expert. A nil one
// tells nobody.
type loadMeter struct {
	out  *deployment.LoadOutbox
	rows []uint32 // of each expert; of one microbatch at a time
}

func newLoadMeter(d *deployment.Deployment, gate string) *loadMeter {
	if d.Loads == nil {
		return nil
	}
	return &loadMeter{out: d.NewLoadOutbox(gate, pb.LoadSource_LOAD_SOURCE_GATE), rows: make([]uint32, d.Model.Spec.Experts)}
}

// run tells what was counted until ctx ends.
func (m *loadMeter) run(ctx context.Context) {
	if m != nil {
		m.out.Run(ctx)
	}
}

// count takes one part of a microbatch, which goes by a version of the layer's plan.
// Rows that were lost and come again have been counted. One goroutine at a time
// calls it.
func (m *loadMeter) count(h *pb.Hidden, routes *forward.Routes, o obeyed, version uint64) {
	if m == nil || h.Key.Attempt > 0 {
		return
	}
	s := loads.StepOf(h)
	s.PlanVersion = version
	s.Expert, s.Count = m.tally(routes)
	if o.fates != nil {
		s.Served, s.Units = served(s.Expert, o, len(m.rows))
	}
	m.out.Put(int(h.Key.Layer), s)
}

// served are the rows that experts have after all, and those that united experts have instead.
func served(experts []uint32, o obeyed, routed int) (served []uint32, units []*pb.UnitLoad) {
	rows := map[uint32]uint32{}
	for _, e := range o.routes.Expert {
		if e != forward.NoExpert {
			rows[uint32(e)]++
		}
	}
	for _, e := range experts {
		served = append(served, rows[e])
	}
	united := &pb.UnitLoad{Kind: plan.United, Way: uint32(o.bundle.Way)}
	for _, e := range slices.Sorted(maps.Keys(rows)) {
		if int(e) >= routed {
			united.Unit, united.Rows = append(united.Unit, e-uint32(routed)), append(united.Rows, uint64(rows[e]))
		}
	}
	if len(united.Unit) > 0 {
		units = append(units, united)
	}
	return served, units
}

// tally lists the experts that have rows, and how many.
func (m *loadMeter) tally(routes *forward.Routes) (experts, counts []uint32) {
	some := 0
	for _, e := range routes.Expert {
		if e == forward.NoExpert {
			continue
		}
		if m.rows[e] == 0 {
			some++
		}
		m.rows[e]++
	}
	both := make([]uint32, 0, 2*some)
	for e, n := range m.rows {
		if n > 0 {
			both = append(both, uint32(e))
		}
	}
	for _, e := range both[:some] {
		both = append(both, m.rows[e])
		m.rows[e] = 0
	}
	return both[:some:some], both[some:]
}
