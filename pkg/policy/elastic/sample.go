package elastic

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// SampleError says why a sample counts for nothing, and what to do about it.
type SampleError struct {
	// Kind is one of few words, for counting.
	Kind string
	Err  error
}

// Error says what is wrong, and what to do about samples of that kind.
func (e *SampleError) Error() string { return fmt.Sprintf("%v; %s", e.Err, cures[e.Kind]) }

// Unwrap is what is wrong.
func (e *SampleError) Unwrap() error { return e.Err }

// The kinds of samples that are refused.
const (
	BadModel  = "model"  // of another model or release
	BadLayer  = "layer"  // of a layer without experts
	BadSender = "sender" // of nobody, or of a host, gate or attention replica that is not here
	BadNumber = "number" // not numbered
	BadMemory = "memory" // of a host that holds more than it may
	BadCounts = "counts" // of rows that cannot be, or do not add up
	BadRows   = "rows"   // of a gate, of rows that no host has computed
	TooMany   = "senders"
)

// Kinds are all of them.
var Kinds = []string{BadModel, BadLayer, BadSender, BadNumber, BadMemory, BadCounts, BadRows, TooMany}

// cures say what to do about each.
var cures = map[string]string{
	BadModel:  "give all services the same --model and release, and each model a --kafka-topic of its own",
	BadLayer:  "give all services the same --model",
	BadSender: "nothing is to be done if it has just come or gone; else look who may write to the topic",
	BadNumber: "look who may write to the topic",
	BadMemory: "restart that host; until then the memory counts that it announces",
	BadRows:   "look who may write to the topic, and whether that gate is of this release",
	BadCounts: "give all services the same release, and look who may write to the topic",
	TooMany:   "look who may write to the topic",
}

// check refuses what no replica of this model sends.
func (c *Core) check(s *pb.LoadSample) error {
	err := c.limits.Check(s)
	if err != nil {
		return &SampleError{Kind: c.kind(s), Err: err}
	}
	switch {
	case s.Number == 0:
		return &SampleError{BadNumber, fmt.Errorf("%w: %s does not number its own", claims.ErrSample, s.Host)}
	case s.Source == pb.LoadSource_LOAD_SOURCE_UNSPECIFIED && c.hosts != nil && !c.hosts[s.Host]:
		return &SampleError{BadSender, fmt.Errorf("%w: host %s is not among the members", claims.ErrSample, s.Host)}
	case s.Source == pb.LoadSource_LOAD_SOURCE_ATTENTION && c.attention != nil && !c.attention[s.Host]:
		return &SampleError{BadSender, fmt.Errorf("%w: attention replica %s is not among the members", claims.ErrSample, s.Host)}
	case s.Source == pb.LoadSource_LOAD_SOURCE_GATE && len(c.gates) > 0 && !c.gates[s.Host]:
		return &SampleError{BadSender, fmt.Errorf("%w: gate %s is not among the members", claims.ErrSample, s.Host)}
	}
	return nil
}

// kind says what is wrong with a sample that is refused.
func (c *Core) kind(s *pb.LoadSample) string {
	switch {
	case s.GetVersion() != schemas.Version || s.GetModel() != c.model.Hash:
		return BadModel
	case !schemas.IsReplicaID(s.Host):
		return BadSender
	case c.layers[int(s.Layer)] == nil:
		return BadLayer
	case s.Memory.GetUsedBytes() > s.Memory.GetBudgetBytes() && s.Memory.GetBudgetBytes() > 0:
		return BadMemory
	}
	return BadCounts
}

// limits are what samples of a model may claim.
func (m Model) limits() claims.Limits {
	last := 0
	for _, l := range m.MoELayers {
		last = max(last, l)
	}
	l := claims.Limits{Model: m.Hash, Layers: last + 1, Experts: m.Experts, TopK: m.TopK, MoE: make([]bool, last+1)}
	for _, number := range m.MoELayers {
		l.MoE[number] = true
	}
	return l
}
