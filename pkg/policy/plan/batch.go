package plan

import (
	"fmt"
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ForBatches is the policy of plans whose functions are rented for batches of tokens. Their
// transfers are their own, whatever settings say of others.
const ForBatches = "bo-ods"

// Deployed is how an expert's function is rented for batches, and the rows that were foretold for it.
type Deployed struct {
	Memory   uint64
	Replicas int
	Foretold float64
}

// Batch is a layer's plan with a function of each expert, rented as deployed, and replicas on hosts in
// turn.
func Batch(layer int, mode pb.TransferMode, minibatch int, deployed []Deployed, hosts []string) (*pb.LayerPlan, error) {
	lp := &pb.LayerPlan{Layer: uint32(layer), Policy: ForBatches, Reason: fmt.Sprintf("%s: a function an expert, %s", ForBatches, TransferName(mode))}
	for e, of := range deployed {
		if of.Replicas < 1 || of.Replicas > len(hosts) {
			return nil, fmt.Errorf("expert %d of layer %d has %d replicas, and there are %d expert hosts, each of which can have one: start %d more", e, layer, of.Replicas, len(hosts), max(1, of.Replicas-len(hosts)))
		}
		var on []string
		for i := range of.Replicas {
			on = append(on, hosts[(e+i)%len(hosts)])
		}
		slices.Sort(on)
		f := Function(layer, []uint32{uint32(e)}, on...)
		f.Transfer, f.MemoryBytes, f.Foretold = mode, of.Memory, of.Foretold
		if mode == Pipelined {
			f.Minibatch = uint32(minibatch)
		}
		lp.Functions = append(lp.Functions, f)
	}
	return lp, nil
}
