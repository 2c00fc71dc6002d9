package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// NewExpert packs an expert that is not in the checkpoint, of the shape of a layer's: gate and up
// (F, D) and down (D, F), all bf16.
func NewExpert(spec *model.Spec, layer int, gate, up, down []byte) (*Expert, error) {
	if layer < 0 || layer >= len(spec.Layer) || !spec.Layer[layer].MoE {
		return nil, fmt.Errorf("layer %d has no experts in this model", layer)
	}
	of := &spec.Layer[layer].Expert
	if !of.Activation.Gated() || of.Bias {
		return nil, fmt.Errorf("layer %d has experts without a gate, or with biases; none can be made for it", layer)
	}
	activate, err := activationOf(of)
	if err != nil {
		return nil, err
	}
	d, f := spec.Hidden, of.Width
	if len(gate) != 2*f*d || len(up) != 2*f*d || len(down) != 2*f*d {
		return nil, fmt.Errorf("an expert of layer %d has matrices of %d bytes; these have %d, %d and %d", layer, 2*f*d, len(gate), len(up), len(down))
	}
	return &Expert{ffn{in: cpu.StackBF16(d, gate, up), down: cpu.PackBF16(down, d, f), activate: activate}, spec.Layer[layer].Router.OnInput, nil}, nil
}

// NewExpertBytes returns what Bytes of a NewExpert will be, for a layer that has experts.
func NewExpertBytes(spec *model.Spec, layer int) int64 {
	d, f := spec.Hidden, spec.Layer[layer].Expert.Width
	return cpu.PackedBytes(2*f, d, cpu.BF16) + cpu.PackedBytes(d, f, cpu.BF16)
}
