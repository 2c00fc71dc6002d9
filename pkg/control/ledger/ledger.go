// Package ledger says where the time of a step went, stage by stage. Services
// measure durations on their own clocks; no clocks of two machines are compared.
package ledger

import (
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
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

// String returns the stage as metrics name it.
func (s Stage) String() string { return stageNames[s] }

// StageNames returns all stages, in their order.
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

// Time returns the layer forward time of MoEless (section 3.3): the slowest expert
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

// Function is the time of one dispatch, as its host says it.
type Function struct {
	ID uint64 // the function's
	// Part is the first row of the group that it is of, and Rows are the routed rows that it had.
	Part, Rows                      int
	Queue, Stall, Compute, Transfer time.Duration
}

// Each appends the dispatches that a block tells of: of each group all of them, where Join keeps
// the critical one of the last. What cannot be is cut as Join does.
func Each(all []Function, total time.Duration, b *pb.Block, limit int) []Function {
	c := claims{total: max(0, total)}
	told := b.GetFunctions()
	for _, f := range told[:min(len(told), limit)] {
		is := c.function(f)
		all = append(all, Function{
			ID: f.GetFunction(), Part: int(b.GetKey().GetPart()), Rows: min(int(f.GetRows()), limit),
			Queue: is.by[ExpertQueue], Stall: is.by[ExpertStall], Compute: is.by[ExpertCompute], Transfer: is.by[ExpertTransfer],
		})
	}
	return all
}

// Join makes a layer's times of what its last block claims, of which nothing is
// believed that the time taken here contradicts. A claim that is longer than
// total is cut to it, of more functions than limit the rest is left out; cut is
// how often that was so.
func Join(total time.Duration, b *pb.Block, limit int) (l Layer, cut int) {
	c := claims{total: max(0, total)}
	functions := b.GetFunctions()
	if len(functions) > limit {
		functions = functions[:limit]
		c.cut++
	}
	l = Layer{Layer: int(b.GetKey().GetLayer()), Total: c.total, Functions: len(functions), Attempt: b.GetKey().GetAttempt()}
	var critical function
	quickest := time.Duration(0)
	for i, f := range functions {
		is := c.function(f)
		if i == 0 || is.took > critical.took {
			critical, l.Critical = is, f.GetFunction()
		}
		if i == 0 || is.took < quickest {
			quickest = is.took
		}
	}
	l.By = critical.by
	l.By[GateQueue], l.By[GateCompute] = c.bound(b.GetGate().GetQueueNs()), c.bound(b.GetGate().GetComputeNs())
	l.By[AggregatorWait] = max(0, c.bound(b.GetWaitNs())-(critical.took-quickest))
	l.fit()
	return l, c.cut
}

// claims are durations that others say within a layer's time.
type claims struct {
	total time.Duration
	cut   int
}

func (c *claims) bound(ns uint64) time.Duration {
	if ns <= uint64(c.total) {
		return time.Duration(ns)
	}
	c.cut++
	return c.total
}

// function is what a function says, by stage and altogether.
type function struct {
	by   [Stages]time.Duration
	took time.Duration
}

func (c *claims) function(f *pb.FunctionTime) (is function) {
	is.by[ExpertQueue], is.by[ExpertStall] = c.bound(f.GetQueueNs()), c.bound(f.GetStallNs())
	is.by[ExpertCompute], is.by[ExpertTransfer] = c.bound(f.GetComputeNs()), c.bound(f.GetTransferNs())
	for _, d := range is.by {
		is.took += d
	}
	return is
}

// fit makes the stages together the total: each gets what it claims of what
// those before it leave, and messages the rest.
func (l *Layer) fit() {
	left := l.Total
	for s := range Messages {
		l.By[s] = min(l.By[s], left)
		left -= l.By[s]
	}
	l.By[Messages] = left
}

// Stopwatch tells one stage's time after the other.
type Stopwatch struct{ last time.Time }

// StartAt returns a stopwatch whose first lap begins at an instant.
func StartAt(t time.Time) Stopwatch { return Stopwatch{t} }

// Lap returns the nanoseconds since the last lap.
func (s *Stopwatch) Lap() uint64 {
	now := time.Now()
	d := max(0, now.Sub(s.last))
	s.last = now
	return uint64(d)
}
