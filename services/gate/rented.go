package gate

import (
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// renting divides rows among the replicas of rented functions as their plans foresee: rows of
// prompts by whole experts, the longest work first to the replica that has least; a message of
// other rows is one invocation, and one of more rows than an invocation takes is several. It keeps
// its buffers; one goroutine uses it.
type renting struct {
	most     int   // rows of an invocation; 0: no bound
	rows     []int // of each expert of the layer
	replicas []int32
	loads    []float64
}

// ways says how each target's rows go to its hosts, or as others says where it is not rented, has
// one replica or none, or one that may hang or is slow, and where rows were lost before.
func (r *renting) ways(h *pb.Hidden, a *addresses, to *plan.Routes, routes *forward.Routes, others func(int) ways) func(int) ways {
	if !slices.ContainsFunc(to.Targets, invoked) {
		return others
	}
	by := r.shared(h, a, to, routes, others)
	return func(f int) ways {
		w := by(f)
		if invoked(to.Targets[f]) {
			w.most = r.most
		}
		return w
	}
}

// shared is ways without the bound of an invocation.
func (r *renting) shared(h *pb.Hidden, a *addresses, to *plan.Routes, routes *forward.Routes, others func(int) ways) func(int) ways {
	if a.key.Attempt > 0 {
		return others
	}
	prompts := slices.ContainsFunc(h.Phases, func(p *pb.PhaseRange) bool { return p.Phase == pb.Phase_PHASE_PREFILL && p.Rows > 0 })
	if prompts {
		r.count(to, routes)
	}
	return func(f int) ways {
		t := to.Targets[f]
		switch {
		case !invoked(t) || ofBatch(t) || len(t.Hosts) < 2 || !a.trusts(t.Hosts):
			return others(f)
		case !prompts:
			return ways{parts: 1}
		}
		return r.divide(&t, to.Plan)
	}
}

// invoked says whether a target is a rented function that rows are sent to by invocations.
func invoked(t plan.Target) bool { return t.MemoryBytes > 0 && !t.Beside }

// ofBatch says whether a target's replicas get equally many rows, as plans for batches foresee: it has one expert, and a
// transfer of its own.
func ofBatch(t plan.Target) bool {
	return len(t.Experts) == 1 && t.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED
}

func (r *renting) count(to *plan.Routes, routes *forward.Routes) {
	n := to.Experts()
	r.rows, r.replicas = reuse.Slice(r.rows, n), reuse.Slice(r.replicas, n)
	clear(r.rows)
	for _, e := range routes.Expert {
		if e != forward.NoExpert && int(e) < n { // united ones are behind them
			r.rows[e]++
		}
	}
}

// divide gives each expert of a target to one of its hosts.
func (r *renting) divide(t *plan.Target, by *pb.LayerPlan) ways {
	takes := plan.Takes(by.GetDivision()).Device(1)
	r.loads = r.loads[:0]
	for _, e := range t.Experts {
		load := float64(r.rows[e])
		if by.GetDivision() != nil {
			load = takes.Seconds(cost.Access{Bytes: 1, Rows: r.rows[e]})
		}
		r.loads = append(r.loads, load)
	}
	groups, _, err := serverless.Partition(r.loads, len(t.Hosts))
	if err != nil { // a plan's times were checked
		return ways{parts: 1}
	}
	for replica, group := range groups {
		for _, at := range group {
			r.replicas[t.Experts[at]] = int32(replica)
		}
	}
	return ways{parts: len(t.Hosts), hosts: t.Hosts, experts: r.replicas}
}
