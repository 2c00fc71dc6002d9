package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Replicas are the live hosts of a function.
type Replicas struct {
	// Serving are warm and take its rows.
	Serving []string
	// Leaving serve as well, and are about to go.
	Leaving []string
	// Joined says that some host is in the function's group, which keeps what comes.
	Joined bool
}

func (r Replicas) warm() []string {
	if len(r.Serving) > 0 {
		return r.Serving
	}
	return r.Leaving
}

// Target is a function that rows go to.
type Target struct {
	*pb.Function
	// Hosts are live and warm; none if what comes wakes or waits for one.
	Hosts []string
	// Cold says that the function has no such host on purpose, so that its group
	// keeps what comes.
	Cold bool
}

// Routes are the functions that a gate uses in one layer. They are never changed.
type Routes struct {
	Targets []Target
	// Version is the newest plan of the layer outside of which no function is
	// used; 0: none.
	Version uint64
	// Plan is the newest plan: they were chosen by it.
	Plan *pb.LayerPlan
	of   []int32 // expert → index in Targets
	// stands has the index in Targets of each united expert that has a warm host.
	stands map[stand]int32
}

// Of is the index of the target of an expert.
func (r *Routes) Of(expert int32) int { return int(r.of[expert]) }

// Target is Of for units of both kinds: united expert g of a bundle has the number of routed
// experts plus g. It must have a target.
func (r *Routes) Target(number int32, of Bundle) int {
	if int(number) < len(r.of) {
		return r.Of(number)
	}
	i, _ := r.United(of, int(number)-len(r.of))
	return i
}

// Experts are the routed ones of the layer.
func (r *Routes) Experts() int { return len(r.of) }

// Missing returns a target that nobody serves, though it is not cold on purpose;
// nil if there is none.
func (r *Routes) Missing() *Target {
	for i := range r.Targets {
		if t := &r.Targets[i]; len(t.Hosts) == 0 && !t.Cold {
			return t
		}
	}
	return nil
}

// Next goes over to a plan, expert by expert: to its function in the plan when
// that has a warm host, or is cold on purpose and has a group; else an expert stays with the function that it had if that
// still has one, or goes to another one in use; else it goes to a function of the
// plan that is cold on purpose, or at last to one that is still to become warm. old
// is nil at the beginning.
func (l *Layer) Next(old *Routes, replicas func(function string) Replicas) *Routes {
	c := chooser{l: l, old: old, replicas: replicas, known: map[string]Replicas{}, at: map[string]int32{}, next: &Routes{Plan: l.LayerPlan, of: make([]int32, len(l.of))}}
	outside := false
	for e := range l.of {
		t := c.choose(e)
		c.next.of[e] = c.target(t)
		outside = outside || l.Function(t.Id) == nil
	}
	c.uniteds()
	switch {
	case !outside:
		c.next.Version = l.Version
	case old != nil:
		c.next.Version = min(old.Version, l.Version)
	}
	return c.next
}

type chooser struct {
	l        *Layer
	old      *Routes
	replicas func(string) Replicas
	known    map[string]Replicas
	at       map[string]int32
	next     *Routes
}

func (c *chooser) of(f *pb.Function) Replicas {
	r, ok := c.known[f.Id]
	if !ok {
		r = c.replicas(f.Id)
		c.known[f.Id] = r
	}
	return r
}

// choose returns the function for an expert.
func (c *chooser) choose(e int) *pb.Function {
	planned := c.l.of[e]
	if f := c.first(planned, func(f *pb.Function) bool { return len(c.of(f).Serving) > 0 }); f != nil {
		return f
	}
	if f := c.asleep(planned); f != nil {
		return f
	}
	if had := c.had(uint32(e)); had != nil {
		return had
	}
	if f := c.first(planned, func(f *pb.Function) bool { return len(c.of(f).Leaving) > 0 }); f != nil {
		return f
	}
	if f := c.first(planned, isCold); f != nil {
		return f
	}
	return c.l.Functions[planned[0]]
}

// asleep is a function that keeps an expert's rows until they wake a host; nil if
// there is none yet, or the plan wants the expert warm somewhere.
func (c *chooser) asleep(planned []int32) *pb.Function {
	if c.first(planned, func(f *pb.Function) bool { return !isCold(f) }) != nil {
		return nil
	}
	return c.first(planned, func(f *pb.Function) bool { return c.of(f).Joined || !anybodyJoins(f) })
}

// had is a warm function in use that has an expert: its own, or else another one's.
func (c *chooser) had(e uint32) *pb.Function {
	if c.old == nil {
		return nil
	}
	if own := c.old.Targets[c.old.of[e]].Function; len(c.of(own).warm()) > 0 {
		return own
	}
	for _, t := range c.old.Targets {
		if t.Kind == Routed && slices.Contains(t.Experts, e) && len(c.of(t.Function).warm()) > 0 {
			return t.Function
		}
	}
	return nil
}

func (c *chooser) first(planned []int32, ok func(*pb.Function) bool) *pb.Function {
	for _, i := range planned {
		if f := c.l.Functions[i]; ok(f) {
			return f
		}
	}
	return nil
}

func isCold(f *pb.Function) bool {
	return !slices.ContainsFunc(f.Placements, func(p *pb.Placement) bool { return p.Want == pb.Want_WANT_WARM })
}

// anybodyJoins reports whether a plan wants a host in a function's group; else the
// plan's writer has made it.
func anybodyJoins(f *pb.Function) bool {
	return slices.ContainsFunc(f.Placements, func(p *pb.Placement) bool { return p.Want != pb.Want_WANT_KEPT })
}

// target enters a function that is used.
func (c *chooser) target(f *pb.Function) int32 {
	if i, ok := c.at[f.Id]; ok {
		return i
	}
	i := int32(len(c.next.Targets))
	c.at[f.Id] = i
	if now := c.l.Function(f.Id); now != nil {
		f = now // its placements
	}
	t := Target{Function: f, Hosts: c.of(f).warm(), Cold: c.l.Function(f.Id) != nil && isCold(f)}
	c.next.Targets = append(c.next.Targets, t)
	return i
}

// Access is what accesses take, as messages have it.
func Access(t divide.Takes) *pb.AccessTime {
	return &pb.AccessTime{ReadSeconds: t.Read, RowSeconds: t.Row, UnitSeconds: t.Unit, CallSeconds: t.Call}
}

// Takes is what a message says that accesses take.
func Takes(a *pb.AccessTime) divide.Takes {
	return divide.Takes{Read: a.GetReadSeconds(), Row: a.GetRowSeconds(), Unit: a.GetUnitSeconds(), Call: a.GetCallSeconds()}
}

func sameAccess(a, b *pb.AccessTime) bool {
	return (a == nil) == (b == nil) && Takes(a) == Takes(b)
}

// Grouping says which experts share a function.
type Grouping string

// The groupings.
const (
	// ByHost makes one function a layer and host: experts that share a host
	// share their fate, and one message carries all their rows.
	ByHost Grouping = "planner"
	// ByExpert makes one function an expert.
	ByExpert Grouping = "expert"
)

// Static is the policy that spreads experts whatever their load.
const Static = "static"

// What settings may name.
var (
	Groupings = []Grouping{ByHost, ByExpert}
)

// MaxReplicas bounds the replicas of a function.
const MaxReplicas = 1024

// MaxWay bounds how many experts a united expert stands in for.
const MaxWay = 1 << 16

// Settings are what an operator wants of the plans of a deployment.
type Settings struct {
	Policy   string
	Grouping Grouping
	// Replicas is how many hosts run each function, bounded by the hosts there
	// are and by what their budgets leave once every expert has one.
	Replicas int
	// Way is how many experts a united expert of plans stands in for; 0: as many as those of the
	// largest way that hosts have.
	Way int
	// Transfer is how rows reach functions; unspecified: as the policy says. Minibatch is the rows of
	// a minibatch, of the pipelined mode alone; else 0.
	Transfer  pb.TransferMode
	Minibatch int
}

// MaxMinibatch bounds the rows of a minibatch.
const MaxMinibatch = 1 << 20

// DefaultSettings hold while nobody has set any.
func DefaultSettings() Settings { return Settings{Policy: Static, Grouping: ByHost, Replicas: 1} }

// SettingsOf reads what a bucket holds; Check reports whether it is legal.
func SettingsOf(p *pb.PlanSettings) Settings {
	return Settings{Policy: p.GetPolicy(), Grouping: Grouping(p.GetGrouping()), Replicas: int(p.GetReplicas()), Way: int(p.GetWay()), Transfer: p.GetTransfer(), Minibatch: int(p.GetMinibatch())}
}

// Proto is the settings' form in a bucket.
func (s Settings) Proto() *pb.PlanSettings {
	return &pb.PlanSettings{Policy: s.Policy, Grouping: string(s.Grouping), Replicas: uint32(s.Replicas), Way: uint32(s.Way), Transfer: s.Transfer, Minibatch: uint32(s.Minibatch)}
}

// Under is plans of layers that say under which settings they are written. Those that are handed in stay as they are.
func Under(layers []*pb.LayerPlan, s Settings) []*pb.LayerPlan {
	out := make([]*pb.LayerPlan, len(layers))
	for i, lp := range layers {
		out[i] = shallow(lp)
		out[i].Settings = s.Proto()
	}
	return out
}

// Check refuses settings that no planner can follow, and says which there are.
func (s Settings) Check() error {
	if _, err := registry.Choose(s.Policy, registry.Hosts); err != nil {
		return err
	}
	switch {
	case !slices.Contains(Groupings, s.Grouping):
		return fmt.Errorf("there is no grouping %.64q; there are: %s and %s", s.Grouping, ByHost, ByExpert)
	case s.Replicas < 1 || s.Replicas > MaxReplicas:
		return fmt.Errorf("replicas is %d; it must be 1 to %d", s.Replicas, MaxReplicas)
	case s.Way < 0 || s.Way == 1 || s.Way > MaxWay:
		return fmt.Errorf("way is %d; it must be 2 to %d, or 0 for the largest that hosts have", s.Way, MaxWay)
	case s.Minibatch < 0 || s.Minibatch > MaxMinibatch:
		return fmt.Errorf("minibatch is %d rows; it must be 1 to %d, or 0 without transfer pipelined", s.Minibatch, MaxMinibatch)
	}
	return checkTransfer(&pb.Function{Transfer: s.Transfer, Minibatch: uint32(s.Minibatch)})
}

// With is the settings with those in their place that another one names; what
// is empty or 0 there stays.
func (s Settings) With(change Settings) Settings {
	minibatch := cmp.Or(change.Minibatch, s.Minibatch)
	if change.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED { // the minibatch is the new mode's
		minibatch = change.Minibatch
	}
	return Settings{
		Policy:   cmp.Or(change.Policy, s.Policy),
		Grouping: cmp.Or(change.Grouping, s.Grouping),
		Replicas: cmp.Or(change.Replicas, s.Replicas),
		Way:      cmp.Or(change.Way, s.Way),
		Transfer: cmp.Or(change.Transfer, s.Transfer), Minibatch: minibatch,
	}
}
