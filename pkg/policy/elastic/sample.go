package elastic

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// SampleError says why a sample counts for nothing.
type SampleError struct {
	// Kind is one of few words, for counting.
	Kind string
	Text string
}

func (e *SampleError) Error() string { return "load sample: " + e.Text }

// The kinds of samples that are refused.
const (
	BadModel  = "model"  // of another model or version
	BadSender = "sender" // of nobody, or of a host that is not here
	BadLayer  = "layer"  // of a layer without experts
	BadNumber = "number" // not numbered
	BadCounts = "counts" // rows that cannot be, or do not add up
	BadMemory = "memory" // a host that holds more than it may
	TooMany   = "too many"
)

// Kinds are all of them.
var Kinds = []string{BadModel, BadSender, BadLayer, BadNumber, BadCounts, BadMemory, TooMany}

func refuse(kind, format string, args ...any) error {
	return &SampleError{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Bounds of what a sample may claim.
const (
	maxSteps     = 1 << 14
	maxFunctions = 1 << 14
	maxStepRows  = 1 << 20
	maxRows      = 1 << 40
	maxSeconds   = 3600
)

// check refuses what no replica of this model sends.
func (c *Core) check(s *pb.LoadSample) error {
	switch {
	case s.GetVersion() != schemas.Version || s.GetModel() != c.model.Hash:
		return refuse(BadModel, "of version %d and model %016x, want %d and %016x; who sends it serves another model, or is of another release",
			s.GetVersion(), s.GetModel(), schemas.Version, c.model.Hash)
	case !schemas.IsReplicaID(s.Host):
		return refuse(BadSender, "%.64q is no replica's id", s.Host)
	case c.layers[int(s.Layer)] == nil:
		return refuse(BadLayer, "layer %d of %s has no experts in this model", s.Layer, s.Host)
	case s.Number == 0:
		return refuse(BadNumber, "%s does not number its samples, so that repeats cannot be told", s.Host)
	}
	switch s.Source {
	case pb.LoadSource_LOAD_SOURCE_UNSPECIFIED:
		return c.checkHost(s)
	case pb.LoadSource_LOAD_SOURCE_GATE, pb.LoadSource_LOAD_SOURCE_PREDICTOR:
		return c.checkSteps(s)
	}
	return refuse(BadSender, "source %d of %s is unknown", s.Source, s.Host)
}

func (c *Core) checkHost(s *pb.LoadSample) error {
	if c.hosts != nil && !c.hosts[s.Host] {
		return refuse(BadSender, "host %s is not among the members", s.Host)
	}
	if len(s.Rows) != len(s.Expert) {
		return refuse(BadCounts, "%d experts with %d counts of %s", len(s.Expert), len(s.Rows), s.Host)
	}
	if m := s.Memory; m.GetBudgetBytes() > 0 && m.GetUsedBytes() > m.GetBudgetBytes() {
		return refuse(BadMemory, "host %s says that it holds %d of %d bytes", s.Host, m.GetUsedBytes(), m.GetBudgetBytes())
	}
	for _, n := range s.Rows {
		if n > maxRows {
			return refuse(BadCounts, "%d rows of an expert of %s", n, s.Host)
		}
	}
	if len(s.Functions) > maxFunctions {
		return refuse(BadCounts, "%d functions of %s", len(s.Functions), s.Host)
	}
	return c.checkExperts(s.Host, s.Expert)
}

// checkExperts wants ids in range that ascend.
func (c *Core) checkExperts(who string, experts []uint32) error {
	for i, e := range experts {
		if int64(e) >= int64(c.model.Experts) || i > 0 && e <= experts[i-1] {
			return refuse(BadCounts, "experts %v of %s; they must ascend and be less than %d", experts[:min(len(experts), i+1, 8)], who, c.model.Experts)
		}
	}
	return nil
}

func (c *Core) checkSteps(s *pb.LoadSample) error {
	if len(s.Steps) == 0 || len(s.Steps) > maxSteps {
		return refuse(BadCounts, "%d microbatches of %s, want 1 to %d", len(s.Steps), s.Host, maxSteps)
	}
	predicted := s.Source == pb.LoadSource_LOAD_SOURCE_PREDICTOR
	for _, step := range s.Steps {
		if far := step.GetDistance(); predicted != (far > 0) || far > maxDistance {
			return refuse(BadCounts, "a distance of %d of %s; a gate's is 0, a predictor's 1 to %d", far, s.Host, maxDistance)
		}
		if err := c.checkStep(s.Host, step, predicted); err != nil {
			return err
		}
	}
	return nil
}

// checkStep wants each row to go to as many experts as the model says; a
// predictor rounds each expert's.
func (c *Core) checkStep(who string, step *pb.StepLoad, predicted bool) error {
	if step.Rows > maxStepRows || step.PrefillRows > step.Rows || len(step.Count) != len(step.Expert) {
		return refuse(BadCounts, "%d rows, %d of them of prompts, and %d counts of %d experts, of %s",
			step.Rows, step.PrefillRows, len(step.Count), len(step.Expert), who)
	}
	if err := c.checkExperts(who, step.Expert); err != nil {
		return err
	}
	most := uint32(0)
	if len(step.Count) > 0 {
		most = slices.Max(step.Count)
	}
	var sum, want, off int64
	for _, n := range step.Count {
		sum += int64(n)
	}
	if want = int64(step.Rows) * int64(c.model.TopK); predicted {
		off = int64(c.model.Experts)
	}
	if most > step.Rows || sum > want+off || sum < want-off {
		return refuse(BadCounts, "%d routed rows, at most %d of one expert, for %d rows of %d experts each, of %s",
			sum, most, step.Rows, c.model.TopK, who)
	}
	return nil
}
