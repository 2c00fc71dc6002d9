package gate

import (
	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Config is what an operator sets.
type Config struct {
	// GPU is what chooses experts in the CPU's place; nil is none. A gate takes as much of
	// its memory as the gates' weights and buffers need.
	GPU *gpus.GPU
	// Payload are the most bytes of rows that an invocation of a rented function takes; 0 is no bound.
	Payload float64
	// Fates says what became of the slots of hidden rows, for tests of what follows from it;
	// where it is nil, or says nil, that is what the gate has done.
	Fates func(*pb.Hidden) *pb.Fates
}

// Check refuses a model whose gates the GPU does not compute.
func (c Config) Check(m *model.Model) error {
	if c.GPU == nil {
		return nil
	}
	return cuda.CheckGates(m)
}
