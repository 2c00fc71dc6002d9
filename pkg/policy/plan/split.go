package plan

import (
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// HasUnited reports whether a layer's plan has functions of united experts.
func (l *Layer) HasUnited() bool { return l != nil && len(l.stands) > 0 }

// Routed is the layer's plan without functions of united experts, for policies that plan
// routed ones alone.
func (l *Layer) Routed() *Layer {
	if !l.HasUnited() {
		return l
	}
	out := &Layer{LayerPlan: shallow(l.LayerPlan), of: make([][]int32, len(l.of)), functions: map[string]int32{}}
	out.Functions = slices.DeleteFunc(slices.Clone(l.Functions), func(f *pb.Function) bool { return f.Kind == United })
	for i, f := range out.Functions {
		out.functions[f.Id] = int32(i)
		for _, e := range f.Experts {
			out.of[e] = append(out.of[e], int32(i))
		}
	}
	return out
}

// With is a layer's plan with more functions behind its own.
func With(lp *pb.LayerPlan, more []*pb.Function) *pb.LayerPlan {
	if len(more) == 0 {
		return lp
	}
	out := shallow(lp)
	out.Functions = slices.Concat(lp.Functions, more)
	return out
}

// shallow shares what a layer's plan points to.
func shallow(lp *pb.LayerPlan) *pb.LayerPlan {
	return &pb.LayerPlan{
		Version: lp.Version, Layer: lp.Layer, Functions: lp.Functions, WriterEpoch: lp.WriterEpoch, Reason: lp.Reason, ModelHash: lp.ModelHash,
		NumericClass: lp.NumericClass, Wire: lp.Wire, Traceparent: lp.Traceparent, SchemaVersion: lp.SchemaVersion, Hops: lp.Hops,
		Division: lp.Division, Policy: lp.Policy, Settings: lp.Settings,
	}
}
