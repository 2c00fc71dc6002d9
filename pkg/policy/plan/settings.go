package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/registry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

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

// SettingsOf reads what a bucket holds; Check says whether it is legal.
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
