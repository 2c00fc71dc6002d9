package gate

import (
	"context"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// division divides a layer's rows among the hosts of its functions by what accesses take,
// where the layer's plan asks for that. It keeps its buffers; one goroutine uses it.
type division struct {
	layers map[uint32]*hosted
	all    []divide.Expert // of the layer's targets
	last   []int32         // the newest row of each
	shares []divide.Share
	to     []ways
	hosts  []string    // memory of to, and rows
	bundle plan.Bundle // of united experts among the routes
	rows   []int
}

// hosted is who serves a layer's functions, by the routes in use.
type hosted struct {
	routes  *plan.Routes
	divider *divide.Divider // nil: nothing is to be divided
	hosts   []string        // that serve any, by name
	on      [][]int         // of each target, places in hosts, its home first
}

func newDivision() *division { return &division{layers: map[uint32]*hosted{}} }

// ways says how each target's rows go to its hosts: divided, or where nothing is to be
// divided, or rows were lost before, as its address says.
func (d *division) ways(a *addresses, to *plan.Routes, routes *forward.Routes) func(int) ways {
	evenly := func(f int) ways { return a.ways(&to.Targets[f]) }
	if to.Plan.GetDivision() == nil || a.key.Attempt > 0 {
		return evenly
	}
	h := d.of(a.key.Layer, to)
	if h.divider == nil {
		return evenly
	}
	d.count(h, to, routes)
	if !d.address(h, a, to) {
		return evenly
	}
	d.divide(h)
	return func(f int) ways {
		if d.to[f].parts == 0 {
			return evenly(f)
		}
		return d.to[f]
	}
}

// of looks at a layer's routes once.
func (d *division) of(layer uint32, to *plan.Routes) *hosted {
	if h := d.layers[layer]; h != nil && h.routes == to {
		return h
	}
	h := &hosted{routes: to, on: make([][]int, len(to.Targets))}
	several := false
	for _, t := range to.Targets {
		h.hosts = append(h.hosts, t.Hosts...)
		several = several || len(t.Hosts) > 1
	}
	slices.Sort(h.hosts)
	h.hosts = slices.Compact(h.hosts)
	for f, t := range to.Targets {
		for _, id := range t.Hosts {
			at, _ := slices.BinarySearch(h.hosts, id)
			h.on[f] = append(h.on[f], at)
		}
		slices.Sort(h.on[f])
		if len(t.GetExperts()) > 0 {
			divide.HomeFirst(h.on[f], int(slices.Min(t.Experts)), len(h.hosts))
		}
	}
	if several {
		h.divider = divide.New(plan.Takes(to.Plan.Division).Device(1), 1, len(h.hosts))
	}
	d.layers[layer] = h
	return h
}

// count takes in how many token rows each target has, and on which hosts. A target of several experts is divided as one: a
// host that gets rows of it reads all its experts.
func (d *division) count(h *hosted, to *plan.Routes, routes *forward.Routes) {
	n := len(to.Targets)
	d.all, d.last, d.to = reuse.Slice(d.all, n), reuse.Slice(d.last, n), reuse.Slice(d.to, n)
	clear(d.to)
	for f := range d.all {
		d.all[f], d.last[f] = divide.Expert{Units: len(to.Targets[f].Experts)}, -1
	}
	for at, expert := range routes.Expert {
		if expert == forward.NoExpert {
			continue
		}
		if f, row := to.Target(expert, d.bundle), int32(at/routes.K); d.last[f] != row {
			d.last[f] = row
			d.all[f].Rows++
		}
	}
	for f := range d.all {
		if d.all[f].Hosts = h.on[f]; len(h.on[f]) == 0 {
			d.all[f].Rows = 0 // its group keeps them
		}
	}
}

// address leaves out hosts that may hang or are slow, as rows that are not divided do, and
// reports whether a target that has rows is left with several.
func (d *division) address(h *hosted, a *addresses, to *plan.Routes) (several bool) {
	for f := range d.all {
		if d.all[f].Rows == 0 {
			continue
		}
		if t := &to.Targets[f]; !a.trusts(t.Hosts) {
			d.all[f].Hosts = h.places(a.byName(t), d.all[f].Hosts)
		}
		if len(d.all[f].Hosts) == 0 {
			d.all[f].Rows = 0 // they go where nobody can tell yet
		}
		several = several || len(d.all[f].Hosts) > 1
	}
	return several
}

func (a *addresses) trusts(hosts []string) bool {
	return a.steady && (a.states == nil || !slices.ContainsFunc(hosts, a.doubtful))
}

// places returns those of the hosts that are named, in the order that they have in on.
func (h *hosted) places(named []string, on []int) (all []int) {
	for _, at := range on {
		if slices.Contains(named, h.hosts[at]) {
			all = append(all, at)
		}
	}
	return all
}

// divide asks for the shares, and notes them by target. What has one host keeps its address.
func (d *division) divide(h *hosted) {
	d.shares = h.divider.Least(d.shares[:0], d.all)
	slices.SortFunc(d.shares, func(a, b divide.Share) int {
		if a.Expert != b.Expert {
			return a.Expert - b.Expert
		}
		return a.Host - b.Host
	})
	n := len(d.shares)
	d.hosts, d.rows = reuse.Slice(d.hosts, n), reuse.Slice(d.rows, n)
	for from := 0; from < n; {
		f, end := d.shares[from].Expert, from
		for ; end < n && d.shares[end].Expert == f; end++ {
			d.hosts[end], d.rows[end] = h.hosts[d.shares[end].Host], d.shares[end].Rows
		}
		if len(d.all[f].Hosts) > 1 {
			d.to[f] = ways{parts: end - from, hosts: d.hosts[from:end], rows: d.rows[from:end]}
		}
		from = end
	}
}

// storesAtOnce bounds the dispatches whose rows are being stored.
const storesAtOnce = 64

// stores are dispatches whose rows go into objects: a gate waits for none of them, since that would
// hold up the rows behind it.
type stores struct {
	d      *deployment.Deployment
	places chan struct{}
	all    *sync.WaitGroup
	mu     *sync.Mutex // of said
	said   *pause.ErrorLog
}

// begin stores a dispatch's rows and sends it. It waits for one of those before if there are many.
func (s stores) begin(ctx context.Context, by transfer.Transfer, to transfer.Address, d *pb.Dispatch) {
	s.places <- struct{}{}
	s.all.Go(func() {
		defer func() { <-s.places }()
		defer s.d.Conn.Recover(to.Subject)
		if err := by.Scatter(ctx, to, d); err != nil && ctx.Err() == nil { // attention issues the rows again
			s.mu.Lock()
			defer s.mu.Unlock()
			s.said.Error(s.d.Logger, "rows could be stored nowhere, nor sent", err)
		}
	})
}

func (s stores) end() { s.all.Wait() }

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

// invoked reports whether a target is a rented function that rows are sent to by invocations.
func invoked(t plan.Target) bool { return t.MemoryBytes > 0 && !t.Beside }

// ofBatch reports whether a target's replicas get equally many rows, as plans for batches foresee: it has one expert, and a
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
