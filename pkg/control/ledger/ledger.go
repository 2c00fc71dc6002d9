// Package ledger says where the time of a step went, stage by stage. Services
// measure durations on their own clocks; no clocks of two machines are compared.
package ledger

import (
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Stage is where a layer's rows are between attention and attention.
type Stage int

// The stages, in the order of the rows' way.
const (
	// GateQueue is from the hidden rows' arrival at a gate's process until its turn.
	GateQueue Stage = iota
	// GateCompute is decoding, routing and splitting.
	GateCompute
	// ExpertQueue is from the dispatch's arrival at the host's process until its turn.
	ExpertQueue
	// ExpertStall is the wait for weights that were not there.
	ExpertStall
	ExpertCompute
	// ExpertTransfer is rows into the device and out of it; decoding and encoding on a CPU.
	ExpertTransfer
	// AggregatorWait is what the group's last partial came later than its first,
	// beyond what the critical function took longer than the quickest one.
	AggregatorWait
	// Messages is everything else: publishing, the server, delivery, the sum, and
	// the time before rows were issued again.
	Messages
	// Stages is how many there are.
	Stages
)

var stageNames = [Stages]string{
	"gate_queue", "gate_compute", "expert_queue", "expert_stall", "expert_compute", "expert_transfer", "aggregator_wait", "messages",
}

// String is the stage as metrics name it.
func (s Stage) String() string { return stageNames[s] }

// StageNames are all stages, in their order.
func StageNames() []string { return stageNames[:] }

// Layer is the time of a layer's routed experts in one step.
//
// The stages of the expert are those of the critical function: of the group
// whose block came last, the one that took longest from its dispatch's arrival
// to its partial's encoding. Other functions ran beside it.
type Layer struct {
	Layer int
	// Total is from before the rows are sent until all blocks are back.
	Total time.Duration
	// By is the total, by stage.
	By [Stages]time.Duration
	// Critical is the id of the critical function, 0 if no function told its time.
	Critical uint64
	// Functions is how many dispatches of the group told their times.
	Functions int
	// Attempt is how often the group was issued before.
	Attempt uint32
	// Each are all dispatches of all groups, where somebody hears of steps.
	Each []Function
}

// Time is the layer forward time of MoEless (section 3.3): the slowest expert
// replica and both rounds of communication, without the gate. Here the
// communication is all that is neither gate nor expert, and it contains the
// rows' way to the gate, which the paper's gates do not have.
func (l *Layer) Time() time.Duration { return l.Total - l.By[GateQueue] - l.By[GateCompute] }

// Step is the time of one step of one attention replica.
type Step struct {
	// Number is the step's in messages and samples of loads.
	Number uint64
	Began  time.Time
	Rows   int
	// Own is attention's time, together the step's: Shared is spent while the
	// rows of a layer are away, Waiting without anything else to do meanwhile.
	Own    forward.Spent
	Layers []Layer
	// Parts are the sequences that had rows in it, for whoever asked to hear of steps.
	Parts []Part
}

// Part is a sequence's share of a step: so many rows, from a position on, and so many tokens
// that came of them.
type Part struct {
	Request             string
	First, Rows, Tokens int
}

// Share is a part of a step's time.
type Share struct {
	Name string
	Time time.Duration
}

// Shares splits a step's time without counting anything twice: the layers'
// stages stand for Waiting and for what of Shared was done meanwhile.
func (s *Step) Shares() []Share {
	var by [Stages]time.Duration
	layers := time.Duration(0)
	for i := range s.Layers {
		layers += s.Layers[i].Total
		for stage, d := range s.Layers[i].By {
			by[stage] += d
		}
	}
	shares := []Share{
		{"embedding", s.Own[forward.Embedding]}, {"attention", s.Own[forward.Attention]}, {"dense", s.Own[forward.Dense]},
	}
	for stage, d := range by {
		shares = append(shares, Share{Stage(stage).String(), d})
	}
	late := s.Own[forward.Shared] + s.Own[forward.Waiting] - layers
	return append(shares, Share{"after_block", late}, Share{"lm_head", s.Own[forward.Head]}, Share{"sampling", s.Own[forward.Sampling]})
}
