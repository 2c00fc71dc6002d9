package plan

import (
	"slices"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Transfers are the modes that settings may name, by name.
var Transfers = map[string]pb.TransferMode{"pipelined": Pipelined, "indirect": Indirect, "direct": Direct}

// TransferName is a mode's; empty: none is said.
func TransferName(mode pb.TransferMode) string {
	if mode == pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(mode.String(), "TRANSFER_MODE_"))
}

// Moved is plans of layers whose rows travel as settings say: where these name a mode every function
// has it, whatever the policy said, and else they are as they were. Plans for batches keep their own.
func Moved(layers []*pb.LayerPlan, s Settings) []*pb.LayerPlan {
	if s.Transfer == pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		return layers
	}
	out := slices.Clone(layers)
	for i, lp := range out {
		if lp.Policy != ForBatches {
			out[i] = moved(lp, s.Transfer, uint32(s.Minibatch))
		}
	}
	return out
}

// moved is a layer's plan with every function in a mode. The layer's own functions stay as they are.
func moved(lp *pb.LayerPlan, mode pb.TransferMode, minibatch uint32) *pb.LayerPlan {
	out := shallow(lp)
	out.Functions = make([]*pb.Function, len(lp.Functions))
	for i, f := range lp.Functions {
		out.Functions[i] = &pb.Function{
			Id: f.Id, Experts: f.Experts, Kind: f.Kind, Placements: f.Placements, Way: f.Way, Bundle: f.Bundle, Transfer: mode, Minibatch: minibatch,
			MemoryBytes: f.MemoryBytes, Beside: f.Beside, Foretold: f.Foretold,
		}
	}
	return out
}

// Unmoved is the layer's plan without what it says of transfers, for policies that decide nothing of
// them: what they would plan again is the same then. Plans for batches keep theirs.
func (l *Layer) Unmoved() *Layer {
	if l.Policy == ForBatches || !slices.ContainsFunc(l.Functions, func(f *pb.Function) bool { return f.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED }) {
		return l
	}
	out := *l
	out.LayerPlan = moved(l.LayerPlan, pb.TransferMode_TRANSFER_MODE_UNSPECIFIED, 0)
	return &out
}

// Stores says whether rows of any function go through objects.
func Stores(layers []*pb.LayerPlan) bool {
	return slices.ContainsFunc(layers, func(lp *pb.LayerPlan) bool {
		return slices.ContainsFunc(lp.GetFunctions(), func(f *pb.Function) bool { return f.Transfer == Pipelined || f.Transfer == Indirect })
	})
}
