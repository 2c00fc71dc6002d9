package gate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
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

// served returns the rows that experts have after all, and those that united experts have instead.
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

// Config is what an operator sets.
type Config struct {
	// GPU is what chooses experts in the CPU's place; nil is none. A gate takes as much of
	// its memory as the gates' weights and buffers need.
	GPU *gpus.GPU
	// Payload are the most bytes of rows that an invocation of a rented function takes; 0 is no bound.
	Payload float64
	// United is the folder of united experts that brownouts may ask for; empty: none is known. With it the gate
	// knows whose rows cost least if they are handed over, and of each group whose united expert it is.
	United string
	// Fates says what became of the slots of hidden rows, for tests of what follows from it;
	// where it is nil, or says nil, that is what the gate has done.
	Fates func(*pb.Hidden) *pb.Fates
}

// Check refuses a model whose gates the GPU does not compute, and united experts of another one.
func (c Config) Check(m *model.Model) error {
	if c.United != "" {
		s, err := united.OpenAll(c.United, m)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			return fmt.Errorf("--united: %w", err)
		}
	}
	if c.GPU == nil {
		return nil
	}
	return c.GPU.Backend.CheckGates(m)
}
