package attention

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// Config is what an operator sets.
type Config struct {
	// MaxModelLen bounds a sequence, prompt and generated tokens together; 0 is the model's limit.
	MaxModelLen int
	// KVBytes is the memory for keys and values; on a GPU 0 is all that is left.
	KVBytes int64
	// MaxSequences bounds the sequences that a replica has at once.
	MaxSequences int
	// MaxRows bounds the rows of a microbatch.
	MaxRows int
	// Microbatches is how many microbatches are in flight at once.
	Microbatches int
	// MinRows is the fewest decode rows for which another worker is used; 0 is by the model's size.
	MinRows int
	// PromptDrag is by what part of itself prompts may lengthen a step that has rows of answers; 0: by any.
	PromptDrag float64
	// Speculate is how many tokens of an answer are drafted from its text at most, and checked in
	// one step; 0: none are.
	Speculate int
	// PrefixCache has sequences begin with the keys and values that others of their tenant have of
	// the same ids.
	PrefixCache bool
	// LongSteps lets prefill take as long as MaxRows rows take, for measurements.
	LongSteps bool
	// GPU is what computes in the CPU's place; nil is none.
	GPU *gpus.GPU
	// Brownout says when other experts stand in for some.
	Brownout Brownout
	// Before is waited for before a sequence of this replica begins; nil: nothing is.
	Before func(context.Context, *pb.Sequence)
	// Directives are obeyed in place of a controller's, for tests; nil: none are.
	Directives engine.Directives
}

// Check refuses memory that does not hold a page of a model, and models whose attention
// the GPU does not compute.
func (c Config) Check(m *model.Model) error {
	if err := c.Brownout.Check(m); err != nil {
		return err
	}
	if c.GPU != nil {
		return cuda.CheckBackbone(m)
	}
	if page := kvcache.ShapeOf(&m.Spec).PageBytes(); c.KVBytes < page {
		return fmt.Errorf("--kv-memory is %d bytes; a page of model %s has %d: give at least as much", c.KVBytes, m.Name, page)
	}
	return nil
}
