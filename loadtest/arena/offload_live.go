package arena

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// LiveOffload is a way to serve that the pipeline can be started with.
type LiveOffload struct {
	Name string
	// Order is the hosts' --offload, Prefill the predictor's --prefill-maps, Scaling the scaler.
	Order, Prefill, Scaling string
	// Distance is that of prediction; 0 is the suite's.
	Distance int
	// Replicas is how many of each expert there are; 0 is 1.
	Replicas int
	// Maps has a predictor give hints, with what is wrong with it; "" has none.
	Maps Trouble
	// Simulated is the same in the simulator; nil: it has none.
	Simulated *offload.Policy
	// Against is the name of what it is compared with; "" is nothing.
	Against string
}

// Trouble is what is wrong with a predictor.
type Trouble string

// The troubles.
const (
	Untroubled Trouble = "none"
	Late       Trouble = "late"    // it hears of steps a second late
	Stopped    Trouble = "stopped" // it hears of none
	Killed     Trouble = "killed"  // it leaves when the first request comes
)

// LiveOffloads are all.
func LiveOffloads() []LiveOffload {
	find := func(name string) *offload.Policy {
		p, err := offload.Find(name)
		if err != nil {
			panic(err) // the names are this package's
		}
		return &p
	}
	nothing := &offload.Policy{Name: "fmoe-unaided", Predictor: offload.Nothing, Order: "fmoe"}
	ours := find(offload.Ours)
	ours.Distance = liveAhead
	next := &offload.Policy{Name: "next-use", Predictor: offload.Selected, Order: "next-use"}
	return []LiveOffload{
		{Name: liveHeld, Order: "none", Simulated: find(offload.Held)},
		{Name: offload.OnDemand, Order: "lru", Simulated: find(offload.OnDemand)},
		{Name: offload.FMoE, Order: "fmoe", Maps: Untroubled, Simulated: find(offload.FMoE), Against: offload.OnDemand},
		{Name: "next-use", Order: "next-use", Maps: Untroubled, Simulated: next, Against: offload.OnDemand},
		{Name: offload.Ours, Order: "fmoe+", Distance: liveAhead, Maps: Untroubled, Simulated: ours, Against: offload.OnDemand},
		{Name: "fmoe-unaided", Order: "fmoe", Simulated: nothing, Against: offload.OnDemand},
		{Name: "fmoe-late", Order: "fmoe", Maps: Late, Against: "fmoe-unaided"},
		{Name: "fmoe-stopped", Order: "fmoe", Maps: Stopped, Against: "fmoe-unaided"},
		{Name: "fmoe-killed", Order: "fmoe", Maps: Killed, Against: "fmoe-unaided"},
		{Name: "fmoe-last", Order: "fmoe", Prefill: "last", Maps: Untroubled, Against: offload.FMoE},
		{Name: "fmoe-rows", Order: "fmoe", Prefill: "rows", Maps: Untroubled, Against: offload.FMoE},
		{Name: "held-hinted", Order: "none", Maps: Untroubled, Against: liveHeld},
		{Name: "moeless", Order: "none", Scaling: "moeless", Against: liveHeld},
		{Name: "moeless-fmoe", Order: "fmoe", Scaling: "moeless", Maps: Untroubled, Against: offload.FMoE},
		{Name: "fmoe-twice", Order: "fmoe", Replicas: 2, Maps: Untroubled, Against: offload.FMoE},
	}
}

// liveAhead is how many of the demo model's eight layers ahead Ours foretells.
const liveAhead = 5

// liveHeld holds all experts.
const liveHeld = offload.Held

// FindLiveOffload is the one of a name.
func FindLiveOffload(name string) (LiveOffload, error) {
	var names []string
	for _, one := range LiveOffloads() {
		if one.Name == name {
			return one, nil
		}
		names = append(names, one.Name)
	}
	return LiveOffload{}, fmt.Errorf("the suite fmoe has no live policy %q; there are %s", name, strings.Join(names, ", "))
}

// OffloadPipeline is what live runs serve: the texts of a recording, whose answers the pipeline
// gives again, and the simulator of the same.
type OffloadPipeline struct {
	Recorded *Recorded
	offload.Traffic
	Seed               uint64 // of the recording
	Distance, Capacity int
	Profile            *profiles.Profile
	Hosts              int
	// Empty has no maps of texts before.
	Empty bool
}

// NewOffloadPipeline serves a recording's texts, split by a seed.
func NewOffloadPipeline(r *Recorded, texts offload.Texts, p OffloadPipeline) (*OffloadPipeline, error) {
	all, err := r.Traffics(texts, p.Seed, 1)
	if err != nil {
		return nil, err
	}
	p.Traffic = all[0]
	return p.of(r)
}

// of is the pipeline of a recording, whose traffic is known.
func (p OffloadPipeline) of(r *Recorded) (*OffloadPipeline, error) {
	p.Recorded = r
	if p.Model.ExpertBytes = p.Profile.ExpertBytes.Value; p.Model.ExpertBytes <= 0 {
		return nil, errors.New("the profile has no expert_bytes")
	}
	p.Model.LayerBytes, p.Model.HeadBytes = 0, 0 // they are computed, and not paced
	return &p, p.Check(p.Layers)
}

// Check refuses what predictors of a model of so many layers cannot be given.
func (p *OffloadPipeline) Check(layers int) error {
	if p.Distance < 1 || p.Distance >= layers {
		return fmt.Errorf("--prefetch: the prediction distance is %d; the demo model has %d layers: it must be 1 to %d", p.Distance, layers, layers-1)
	}
	return nil
}

// Requests are the texts that are served.
func (p *OffloadPipeline) Requests() (all []replay.Request) {
	for _, t := range p.Served {
		at := slices.Index(p.Recorded.texts, t)
		all = append(all, replay.Request{
			Domain: t.Domain, IDs: t.Tokens[:t.Prompt], Tokens: t.N - t.Prompt + 1, Seed: uint32(p.Seed) + uint32(at), Temperature: recordedAt,
		})
	}
	return all
}

// recordedAt is the temperature of recordings' answers.
const recordedAt = 0.7

// Answered reports whether answers are those that were recorded.
func (p *OffloadPipeline) Answered(answers []replay.Answer) error {
	for i, t := range p.Served {
		switch got := answers[i].Tokens; {
		case answers[i].Err != nil:
			return fmt.Errorf("request %d: %w", i+1, answers[i].Err)
		case len(got) != t.N-t.Prompt+1 || !slices.Equal(got[:len(got)-1], t.Tokens[t.Prompt:]):
			return fmt.Errorf("the answer to text %d is not the one that was recorded: was it recorded with the same --seed, and --wire bf16?", i+1)
		}
	}
	return nil
}

// Maps is a store of the texts before, of a model with a hash.
func (p *OffloadPipeline) Maps(model, tenant string) (*expertmap.Store, error) {
	return offload.NewStore(p.Traffic, model, tenant, p.Capacity, p.Distance)
}

// Simulate is what the simulator says of a policy, where so much is spent beside, and predictions take so long.
func (p *OffloadPipeline) Simulate(policy offload.Policy, budget float64, beside offload.Beside, delays offload.Delays) (*offload.Result, error) {
	lab, err := p.lab(beside, delays)
	if err != nil {
		return nil, err
	}
	return lab.Run(policy, budget)
}

// lab is the simulator of the pipeline.
func (p *OffloadPipeline) lab(beside offload.Beside, delays offload.Delays) (*offload.Lab, error) {
	bed, err := offload.RTX3090()
	if err != nil {
		return nil, err
	}
	bed.Hosts, bed.Anew, bed.Device, bed.Memory = p.Hosts, true, p.Profile.Compute(), p.Profile.MemoryBytes.Value
	bed.Link = p.Profile.Link()
	bed.Below = offload.Below{Bytes: p.Profile.Below.Value, Link: p.Profile.Way()}
	if p.Profile.Shared.Value > 0 {
		bed.Shared = p.Profile.Shared.Value
	}
	lab, err := offload.NewLab(p.Traffic, bed, delays, p.Distance, p.Capacity, 1)
	if err != nil {
		return nil, err
	}
	lab.Grows, lab.Filled, lab.Beside, lab.AsServed, lab.Empty = true, true, beside, p.Recorded.ahead, p.Empty
	return lab, nil
}

// delays are how long searches for maps took, with all that predictors say by what they find: the simulator has
// bounds, which a small store is far below, and a step's first layers are as near.
func delays(runs []*OffloadRun) offload.Delays {
	d := offload.DefaultDelays()
	if semantic := average(valuesOf(runs, func(r *OffloadRun) float64 { return r.Semantic })); semantic > 0 {
		d.Semantic, d.Trajectory, d.Learned = semantic, average(valuesOf(runs, func(r *OffloadRun) float64 { return r.Trajectory })), 0
	}
	return d
}

func average(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}
