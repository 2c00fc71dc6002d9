package cuda

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// GateError says that a layer's gate is none that the kernels compute.
type GateError struct {
	Layer int
	Has   string
}

func (e *GateError) Error() string {
	return fmt.Sprintf("the gate of layer %d is not computed on GPUs (%s): use --device cpu for gates", e.Layer, e.Has)
}

// What the kernel route has room for: experts in the bits that a lane has, slots and groups in the lanes.
const (
	mostExperts = 2048
	mostChosen  = 32
	mostGroups  = 32
)

// CheckGates refuses a model whose gates no kernel here computes. It reads no weights.
func CheckGates(m *model.Model) error {
	for l := range m.Spec.Layer {
		if !m.Spec.Layer[l].MoE {
			continue
		}
		if has := unroutable(&m.Spec, &m.Spec.Layer[l].Router); has != "" {
			return &GateError{l, has}
		}
	}
	return nil
}

// unroutable returns what of a gate there is no kernel for; empty: nothing.
func unroutable(s *model.Spec, r *model.RouterSpec) string {
	switch {
	case s.Experts > mostExperts:
		return fmt.Sprintf("%d experts, more than %d", s.Experts, mostExperts)
	case s.TopK > mostChosen:
		return fmt.Sprintf("%d experts a row, more than %d", s.TopK, mostChosen)
	case r.Groups > mostGroups:
		return fmt.Sprintf("%d groups of experts, more than %d", r.Groups, mostGroups)
	case r.Kind > model.SparseMixer:
		return fmt.Sprintf("routing by %+v", *r)
	}
	return ""
}
