// Package registry is the one list of policies. A policy is a folder of pkg/policy and one
// registration (pkg/policy/policies): its name, what it is, its settings, what it goes by,
// and the function that decides. The scaler, the planner, the simulator, the arena, the
// commands with their help, and docs/policies.md read it, and have no lists of their own.
package registry

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Decide decides on the layers that are due. The same world gives the same decision; it
// changes nothing, and keeps nothing of the world.
type Decide func(*world.World) (world.Decision, error)

// Sight is what a policy knows of loads.
type Sight int

// What a policy may know.
const (
	// Past is what the layer's experts had since the decision before.
	Past Sight = iota
	// Ahead is a prediction made when the layer begins that lies the prediction
	// distance before.
	Ahead
	// Exact is what is going to be.
	Exact
)

var sights = [...]string{Past: "the past", Ahead: "predictions", Exact: "what is going to be"}

func (s Sight) String() string { return sights[s] }

// Use is where a policy can be chosen.
type Use uint8

// The uses.
const (
	// Live is the scaler's --scaling.
	Live Use = 1 << iota
	// Simulated is the simulator.
	Simulated
	// Hosts is the settings of plans (`plan set --policy`): hosts plan by it among
	// themselves, without loads.
	Hosts
	// Scaling and Placing are the commands `policy scale` and `policy place`.
	Scaling
	Placing
)

// Policy is one way to decide.
type Policy struct {
	Name string
	// About says in a line what it does.
	About string
	// Settings are its own; Make sets what depends on them.
	Settings []Setting
	Make     func(*Policy, Values)

	Decide Decide // nil is the initial placement for ever
	// Scale and Place are steps that can be asked for alone. InSteps says that Decide is one
	// behind the other, so that a scaler can place fewer replicas than the first one wants.
	Scale   scale.Policy
	Place   place.Policy
	InSteps bool
	// Most bounds the replicas beyond each expert's first, by the number of experts; nil: room
	// alone does.
	Most func(experts int) int
	// Uses are where it can be chosen.
	Uses Use

	Sees Sight
	// Every are the seconds between decisions about a layer; 0 is each iteration.
	Every float64
	// Forced says that each of these decisions is carried out whatever it costs; else a
	// scaler decides at its own cadence, and weighs.
	Forced bool
	// ToZero says that a scaler lets experts go that have had no rows for the time of
	// keep-alive.
	ToZero bool
	// Corrects says that predictions are corrected by what came of those before.
	Corrects bool
	// Divides says that an expert's rows are divided only where that ends a layer sooner
	// (pkg/policy/divide); else all its replicas have equally many.
	Divides bool
	// KeepAlive are the seconds for which a replica beside others of its expert stays without
	// rows, in place of the settings', if it is not 0. A Placement's Keep goes before it.
	KeepAlive float64
	// Lingers says that with no rows at all layers let their experts go one after the other, as
	// Stay tells.
	Lingers bool
	// Start decides before the first iteration, on the loads of the trace's first
	// ten minutes.
	Start bool
	// Serverful says that the paper bills all memory all the time. Simulated, no keep-alive
	// frees memory then: what a decision does not want goes once all that it wants is loaded.
	Serverful bool
	// Lossy is the oracle, which gives all hosts equally many rows, against the
	// gate's choice.
	Lossy bool
}

// May reports whether a policy can be chosen there.
func (p *Policy) May(use Use) bool { return p.Uses&use != 0 }

// With is the policy with values in place of its settings' defaults.
func (p Policy) With(values Values) Policy {
	all := Values{}
	for _, s := range p.Settings {
		all[s.Name] = s.Default
		if v, given := values[s.Name]; given {
			all[s.Name] = v
		}
	}
	if p.Make != nil {
		p.Make(&p, all)
	}
	return p
}

// Stay is for how long the last replicas of a layer's experts stay without rows, of so many
// layers, where the time of keep-alive is this. A pause that has lasted for some time ends
// within the keep-alive with the chance keep-alive / time, as long as nothing else is known
// of pauses: that share of the layers stays, so that so much less is to be loaded behind it.
func (p *Policy) Stay(keepAlive float64, layer, layers int) float64 {
	if !p.Lingers {
		return keepAlive
	}
	return keepAlive * float64(layers) / float64(layer+1)
}
