package residency

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// tally is what a function's dispatches have come to: the rows of each of its experts, and
// what they took since it was last told. Any goroutine adds to it.
type tally struct {
	rows                                      map[uint32]prometheus.Counter // of each expert, in the metrics
	messages, computed, queue, stall, compute atomic.Uint64
}

func newTally(layer int, spec *pb.Function, m *telemetry.Metrics) tally {
	rows := map[uint32]prometheus.Counter{}
	for _, e := range spec.Experts {
		if spec.Kind == plan.United {
			rows[e] = m.UnitedRows(layer, int(spec.Way))
		} else {
			rows[e] = m.ExpertRows(layer, int(e))
		}
	}
	return tally{rows: rows}
}

func (t *tally) add(experts []uint32, took *pb.FunctionTime) {
	for _, e := range experts {
		if rows := t.rows[e]; rows != nil {
			rows.Inc()
		}
	}
	t.messages.Add(1)
	t.computed.Add(uint64(took.Rows))
	t.queue.Add(took.QueueNs)
	t.stall.Add(took.StallNs)
	t.compute.Add(took.ComputeNs)
}

// tell takes what there is to tell of a function. The table's lock is held.
func (f *Function) tell() *pb.FunctionLoad {
	t := &f.tally
	l := &pb.FunctionLoad{
		Id: f.spec.Id, Expert: slices.Sorted(slices.Values(f.spec.Experts)),
		Messages: t.messages.Swap(0), Rows: t.computed.Swap(0), QueueNs: t.queue.Swap(0), StallNs: t.stall.Swap(0), ComputeNs: t.compute.Swap(0),
	}
	if f.spec.Kind == plan.United {
		l.Kind, l.Way = f.spec.Kind, f.spec.Way
	}
	if f.receiving != nil {
		l.Waiting = uint32(f.receiving.Waiting())
	}
	return l
}
