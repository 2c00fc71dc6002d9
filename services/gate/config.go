package gate

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
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
	// United is the folder of united experts that brownouts may ask for; empty: none is known. With it the gate
	// knows whose rows cost least if they are handed over, and of each group whose united expert it is.
	United string
	// Fates says what became of the slots of hidden rows, for tests of what follows from it;
	// where it is nil, or says nil, that is what the gate has done.
	Fates func(*pb.Hidden) *pb.Fates
}

// Check refuses a model whose gates the GPU does not compute, and united experts of another one.
func (c Config) Check(m *model.Model) error {
	if c.United != "" {
		s, err := united.OpenAll(c.United, m)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			return fmt.Errorf("--united: %w", err)
		}
	}
	if c.GPU == nil {
		return nil
	}
	return cuda.CheckGates(m)
}
