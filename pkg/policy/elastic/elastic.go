// Package elastic decides what a model's plan is to be, by the loads of its
// experts: MoEless's scaler and placer (arXiv:2603.06350, §4) where a replica
// costs something to move, and their baselines.
//
//	samples ─Observe─▶ what is known of loads, hosts, times
//	                             │
//	hosts, plan in force ─Decide─┴▶ mend ▶ scale ▶ place ▶ is it worth it? ▶ keep ▶ plan
//
// It has no clock: now is the caller's, in seconds, and never goes back. Times
// that samples claim are of spans only, so that no sender's clock has to be right.
package elastic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/feedback"
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// Settings are what an operator sets.
type Settings struct {
	// Scaling is a policy that can be chosen live, as registry.Choose reads it.
	Scaling string
	// CV is the threshold up to which the replicas of a layer count as balanced.
	CV float64
	// MemoryCap bounds the bytes of a layer's replicas beyond each expert's first.
	MemoryCap uint64
	// KeepAlive is how many seconds a replica that is retired stays loaded, and ZeroAfter how
	// many an expert without rows does; 0: as the policy says by KeepAlive (registry.Policy.Stay).
	KeepAlive, ZeroAfter float64
	// Horizon is how many seconds a change has to pay for itself, and for how long
	// a replica is not needed before it is retired.
	Horizon float64
	// RowSeconds and LoadSeconds are what a row and an expert's load take, until
	// hosts have told.
	RowSeconds, LoadSeconds float64
	// Worth is the part of all time that a replica in every layer has to save to be worth
	// its memory.
	Worth float64
	// MessageSeconds is what one more message makes a layer take, until attention has told;
	// with MessageFixed always. Gates send a step's rows of a function as one message a replica.
	MessageSeconds float64
	MessageFixed   bool
	// Unjudged says that changes stay whatever comes of them.
	Unjudged bool
	// Takes is what an access takes on hosts, for policies that decide by that; nil: it is
	// the time of its rows.
	Takes *cost.Device
}

// Cadence is the least number of seconds between two decisions by load.
const Cadence = 0.25

// DefaultSettings are those of a scaler that is told nothing. What rows and loads
// take is assumed; what a message takes was measured with all services in one
// process on two cores.
func DefaultSettings() Settings {
	return Settings{
		Scaling: registry.Default, CV: 0.2, MemoryCap: 8e9, KeepAlive: 60, Horizon: 10, RowSeconds: 50e-6, LoadSeconds: 10e-3,
		MessageSeconds: 25e-6, Worth: 0.01,
	}
}

// Check says what is wrong with settings.
func (s Settings) Check() error {
	if _, err := registry.Choose(s.Scaling, registry.Live); err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	for _, c := range []struct {
		name  string
		value float64
	}{
		{"cv", s.CV}, {"keep-alive", s.KeepAlive}, {"zero-after", s.ZeroAfter}, {"horizon", s.Horizon}, {"the time of a row", s.RowSeconds}, {"the time of a load", s.LoadSeconds},
		{"message-time", s.MessageSeconds}, {"worth", s.Worth},
	} {
		if !(c.value >= 0) || math.IsInf(c.value, 0) {
			return fmt.Errorf("%s is %v; it must be 0 or above", c.name, c.value)
		}
	}
	return nil
}

// mode is one way to decide. Without one for scaling and none for all at once, it
// leaves everything to the static policy.
type mode struct {
	name  string
	scale scale.Policy
	place place.Policy
	// whole decides on replicas and their hosts at once.
	whole registry.Decide
	// predicted says that predicted loads count, where there are any.
	predicted bool
	// corrects says that they are corrected by what came of those before.
	corrects bool
	// divides says that gates divide rows by what accesses take.
	divides bool
	// toZero says that experts without rows for the time of keep-alive are
	// scaled to zero.
	toZero bool
	// every, if not 0, is how many seconds loads are added up between two
	// decisions, each of which is carried out whatever it costs.
	every float64
	// most bounds a layer's replicas beyond each expert's first, by its experts; nil: memory
	// alone does.
	most func(experts int) int
	// keepAlive is how many seconds a replica that is retired stays loaded.
	keepAlive float64
	// stay is how long a layer's last replicas stay without rows (registry.Policy.Stay).
	stay func(keepAlive float64, layer, layers int) float64
}

// modeOf is how a policy of the registry decides here: step by step where it has steps, so
// that a scaler can have fewer replicas than it asks for.
func modeOf(p registry.Policy, s Settings) mode {
	m := mode{name: p.Name, predicted: p.Sees == registry.Ahead, corrects: p.Corrects, divides: p.Divides, most: p.Most, toZero: p.ToZero, keepAlive: cmp.Or(p.KeepAlive, s.KeepAlive), stay: p.Stay}
	switch {
	case p.Decide == nil:
	case p.InSteps:
		m.scale, m.place = p.Scale, p.Place
	default:
		m.whole = p.Decide
	}
	if p.Forced {
		m.every = p.Every
	}
	return m
}

// stays is for how many seconds the last replicas of a layer of this number stay without rows.
func (c *Core) stays(number int) float64 {
	if c.s.ZeroAfter > 0 {
		return c.s.ZeroAfter
	}
	return c.mode.stay(c.s.KeepAlive, slices.Index(c.model.MoELayers, number), len(c.model.MoELayers))
}

func (m mode) static() bool { return m.scale == nil && m.whole == nil }

// Model is the model whose plan is decided on.
type Model struct {
	plan.Model
	// Hash is what samples carry.
	Hash uint64
	// TopK is how many experts a row goes to.
	TopK int
	// Uneven says that rows do not go through all layers, as where some are an encoder's.
	Uneven bool
}

// layersOfRow is through how many layers a row goes at least.
func (m Model) layersOfRow() int {
	if m.Uneven {
		return 1
	}
	return max(1, len(m.MoELayers))
}

// Core is what a scaler knows. Observe, Computed, Here, Backlog, Doubts and Counts may be
// called while it decides; one goroutine alone calls everything else.
type Core struct {
	s      Settings
	mode   mode
	model  Model
	limits claims.Limits
	layers map[int]*layer

	mu      sync.Mutex // guards what samples tell, which layers have too (heard), and is never held for long
	now     float64
	senders map[string]*sender
	hosts   map[string]bool // as of the last decision; nil before
	loading mean            // seconds of a load
	counts  Counts
	heard   float64 // when the newest sample with rows came
	rows    float64 // that hosts have computed, by Computed
	unheard float64 // since when there are more of which no sample has come; 0: there are none
	judge   *feedback.Judge
	message slope
	// attention and gates are the replicas that are here; nil: not known.
	attention, gates map[string]bool
	backlog          backlog
	confirmation     confirmation
	doubts           []Doubt

	// The rest is of who decides.
	refused    map[refusal]float64
	ended      []feedback.Outcome
	applied    map[int]uint64 // versions that all gates use; nil: plans are in use at once
	budget     bucket
	perMessage perMessage
}

// New returns a core that knows nothing yet. Settings that Check refuses are the
// caller's fault.
func New(s Settings, m Model) (*Core, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	p, err := registry.Choose(s.Scaling, registry.Live)
	if err != nil {
		return nil, err
	}
	c := &Core{
		s: s, mode: modeOf(p, s), model: m, limits: m.limits(), layers: map[int]*layer{}, senders: map[string]*sender{}, refused: map[refusal]float64{},
		counts: Counts{Refused: map[string]uint64{}}, judge: feedback.New(feedback.Settings{Horizon: s.Horizon, Layers: len(m.MoELayers)}),
	}
	for _, l := range m.MoELayers {
		c.layers[l] = newLayer(m.Experts, c.mode)
	}
	c.backlog, err = newBacklog()
	return c, err
}

// at is the time of a call; a clock that goes back stands still. c.mu is held.
func (c *Core) at(now float64) float64 {
	if now > c.now {
		c.now = now
	}
	return c.now
}
