package gate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// planSwitch holds the functions in use, layer by layer, and goes over to those of
// a newer plan one by one, as they become warm: load, then switch. What is in use
// is read without a lock.
type planSwitch struct {
	states states
	routes []atomic.Pointer[plan.Routes] // by layer

	mu     sync.Mutex // guards the rest: one change at a time
	layers []int      // that have experts
	plans  map[int]*plan.Layer
	hosts  map[string]bool // live expert hosts; true: it leaves
	begun  bool            // all rows could be routed once
}

// states is functions.View's part that gates need.
type states interface {
	Replicas(layer int, function string) []planstore.Replica
}

func newPlanSwitch(layers []int, s states) *planSwitch {
	return &planSwitch{
		states: s, layers: layers, routes: make([]atomic.Pointer[plan.Routes], slices.Max(layers)+1),
		plans: map[int]*plan.Layer{}, hosts: map[string]bool{},
	}
}

// in returns the functions in use in a layer that has experts, nil before its first plan.
func (p *planSwitch) in(layer int) *plan.Routes { return p.routes[layer].Load() }

// ready reports whether every row can be routed to a live host, or to a function
// that is cold on purpose.
func (p *planSwitch) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.complete()
}

// complete is ready with p.mu held.
func (p *planSwitch) complete() error {
	for _, l := range p.layers {
		r := p.in(l)
		if r != nil && r.Missing() == nil {
			continue
		}
		switch {
		case r == nil:
			return fmt.Errorf("no plan whose functions are all warm: layer %d has no plan", l)
		case !p.begun:
			return fmt.Errorf("no plan whose functions are all warm: layer %d waits for %s", l, named(r.Missing()))
		}
		return fmt.Errorf("layer %d has functions without a live expert host, among them %s", l, named(r.Missing()))
	}
	return nil
}

func named(t *plan.Target) string {
	const few = 4
	experts := t.GetExperts()
	if len(experts) > few {
		return fmt.Sprintf("function %s (%d experts)", t.GetId(), len(experts))
	}
	return fmt.Sprintf("function %s (experts %s)", t.GetId(), strings.Trim(fmt.Sprint(experts), "[]"))
}

func (p *planSwitch) offer(l *plan.Layer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans[int(l.Layer)] = l
	p.advance(int(l.Layer))
}

func (p *planSwitch) heard(layer int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(layer)
}

// members takes the live hosts, and reports whether they are others than before.
func (p *planSwitch) members(hosts map[string]bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if maps.Equal(p.hosts, hosts) {
		return false
	}
	p.hosts = hosts
	for _, l := range p.layers {
		p.advance(l)
	}
	return true
}

// advance chooses the functions of a layer's experts; p.mu is held.
func (p *planSwitch) advance(layer int) {
	l := p.plans[layer]
	if l == nil {
		return
	}
	p.routes[layer].Store(l.Next(p.in(layer), func(f string) plan.Replicas { return p.replicas(layer, f) }))
	p.begun = p.begun || p.complete() == nil
}

func (p *planSwitch) replicas(layer int, function string) (out plan.Replicas) {
	for _, r := range p.states.Replicas(layer, function) {
		leaves, live := p.hosts[r.Host]
		out.Joined = out.Joined || live && r.Joined
		switch {
		case !live || !r.Warm():
		case leaves:
			out.Leaving = append(out.Leaving, r.Host)
		default:
			out.Serving = append(out.Serving, r.Host)
		}
	}
	slices.Sort(out.Serving)
	slices.Sort(out.Leaving)
	return out
}

// versions returns the plans in use.
func (p *planSwitch) versions() map[uint32]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[uint32]uint64, len(p.layers))
	for _, l := range p.layers {
		if r := p.in(l); r != nil && r.Version > 0 {
			out[uint32(l)] = r.Version
		}
	}
	return out
}

// followPlan takes new plans in until ctx ends.
func (s *Service) followPlan(ctx context.Context) error {
	return s.d.Plans.Follow(ctx, func(v planstore.Value) {
		if v.Plan != nil {
			s.plan.offer(v.Plan)
			s.acknowledge()
		}
	})
}

// followStates keeps track of functions' states until ctx ends.
func (s *Service) followStates(ctx context.Context) {
	layers := newDirty()
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() {
		layers.each(ctx, func(layer int) {
			s.plan.heard(layer)
			s.acknowledge()
		})
	})
	s.states.Follow(ctx, s.acks, func(c planstore.FunctionChange) {
		if c.Gate == "" {
			layers.add(c.Layer)
		}
	})
}

// dirty are layers to look at again: once for all that has changed meanwhile.
type dirty struct {
	mu     sync.Mutex
	layers map[int]bool
	note   chan struct{}
}

func newDirty() *dirty { return &dirty{layers: map[int]bool{}, note: make(chan struct{}, 1)} }

func (d *dirty) add(layer int) {
	d.mu.Lock()
	d.layers[layer] = true
	d.mu.Unlock()
	pause.Wake(d.note)
}

// each looks at the layers, until ctx ends.
func (d *dirty) each(ctx context.Context, look func(layer int)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.note:
		}
		d.mu.Lock()
		layers := d.layers
		d.layers = map[int]bool{}
		d.mu.Unlock()
		for layer := range layers {
			look(layer)
		}
	}
}

// followMembers keeps track of the hosts until ctx ends.
func (s *Service) followMembers(ctx context.Context) {
	s.view.Follow(ctx, func(all []*pb.Member) {
		s.homes.members(all)
		s.obeys.members(all)
		if s.plan.members(hosts(all)) {
			s.acknowledge()
		}
	})
}

// acknowledge tells which plans are in use, so that hosts can drop what is older.
// Several goroutines call it: what is said last is what was looked at last.
func (s *Service) acknowledge() {
	s.acking.Lock()
	defer s.acking.Unlock()
	if v := s.plan.versions(); len(v) > 0 {
		_ = s.acks.Set(planstore.GateKey(s.id), &pb.GateLayers{Gate: s.id, Versions: v}) // a map of numbers can be encoded
	}
	if !s.presence.Ready() && s.plan.ready() == nil {
		s.presence.SetReady(true)
	}
}

// hosts lists the expert hosts, and says which leave.
func hosts(all []*pb.Member) map[string]bool {
	out := map[string]bool{}
	for _, m := range members.OfService(all, "expert") {
		out[m.Id] = m.Draining
	}
	return out
}

// foretelling compares the rows that come for a layer's functions with those that its plan foretold. One goroutine at
// a time uses it.
type foretelling struct {
	metrics        *telemetry.ForetoldMetrics
	foretold, came []float64 // of each target
}

// compare sets the rows of a message beside those that the plan foretold; where it foretells none, the
// layer has no figures any more. Rows that were lost and come again have been counted; while functions
// of two plans are in use, nothing is.
func (f *foretelling) compare(h *pb.Hidden, routes *forward.Routes, to *plan.Routes) {
	layer, n := int(h.GetKey().GetLayer()), len(to.Targets)
	if !slices.ContainsFunc(to.Targets, func(t plan.Target) bool { return t.GetForetold() > 0 }) {
		f.metrics.Forget(layer)
		return
	}
	if h.GetKey().GetAttempt() > 0 || to.Version != to.Plan.GetVersion() {
		return
	}
	f.foretold, f.came = reuse.Slice(f.foretold, n), reuse.Slice(f.came, n)
	clear(f.came)
	for i, t := range to.Targets {
		f.foretold[i] = t.GetForetold()
	}
	for _, e := range routes.Expert {
		if e != forward.NoExpert && int(e) < to.Experts() {
			f.came[to.Of(e)]++
		}
	}
	f.metrics.Compare(layer, f.foretold, f.came)
}

// homing sends a function's rows to one of its hosts by name, its home (plan.Homes), where hosts
// load experts for their rows: with each that got some, one more would have to hold the experts.
type homing struct {
	offloads atomic.Pointer[map[string]bool] // hosts that do; nil: none
	layers   map[uint32]*homed
}

// homed is where rows of a layer's functions go, by the routes in use.
type homed struct {
	routes *plan.Routes
	hosts  *map[string]bool
	to     []ways // of each target; without parts: it has no home
}

func newHoming() *homing { return &homing{layers: map[uint32]*homed{}} }

// members takes in which hosts there are.
func (h *homing) members(all []*pb.Member) {
	hosts := map[string]bool{}
	for _, m := range members.OfService(all, "expert") {
		if m.Stats[members.Offloads] > 0 {
			hosts[m.Id] = true
		}
	}
	if len(hosts) == 0 {
		h.offloads.Store(nil)
		return
	}
	h.offloads.Store(&hosts)
}

// ways says how each target's rows go to its hosts: home, or as others says where it has none,
// where that may hang or is slow, and where rows were lost before.
func (h *homing) ways(a *addresses, to *plan.Routes, others func(int) ways) func(int) ways {
	hosts := h.offloads.Load()
	if hosts == nil || !a.steady || a.key.Attempt > 0 {
		return others
	}
	at := h.of(a.key.Layer, to, hosts)
	return func(f int) ways {
		if home := at.to[f]; home.parts > 0 && !a.doubtful(home.hosts[0]) {
			return home
		}
		return others(f)
	}
}

// of looks at a layer's routes once.
func (h *homing) of(layer uint32, to *plan.Routes, hosts *map[string]bool) *homed {
	if is := h.layers[layer]; is != nil && is.routes == to && is.hosts == hosts {
		return is
	}
	is := &homed{to, hosts, make([]ways, len(to.Targets))}
	homes := plan.Homes(to.Plan)
	for f, t := range to.Targets {
		home := homes[t.Id]
		if slices.Contains(t.Hosts, home) && slices.ContainsFunc(t.Hosts, func(host string) bool { return (*hosts)[host] }) {
			is.to[f] = ways{parts: 1, hosts: []string{home}}
		}
	}
	h.layers[layer] = is
	return is
}

// planTraces show in gates' spans by which plans rows went, and when another one
// came. Goroutines take turns with them.
type planTraces map[int]uint64 // by layer, the version of the newest span

// describe tells a span of the plan in use, and of how many messages the rows made.
// The first span under another plan has an event that says why there is one, and a
// link to the span of that decision.
func (p planTraces) describe(span trace.Span, layer int, to *plan.Routes, messages int) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(telemetry.AttrPlanVersion.Int64(int64(to.Version)), telemetry.AttrFunctions.Int(messages))
	before, known := p[layer]
	p[layer] = to.Version
	if !known || before == to.Version {
		return
	}
	attributes := []attribute.KeyValue{telemetry.AttrPlanVersion.Int64(int64(to.Version))}
	if newest := to.Plan; newest.GetVersion() == to.Version {
		attributes = append(attributes, telemetry.AttrReason.String(newest.GetReason()))
		if decision, ok := telemetry.LinkTo(newest.GetTraceparent()); ok {
			span.AddLink(decision)
		}
	}
	span.AddEvent(telemetry.EventPlan, trace.WithAttributes(attributes...))
}
