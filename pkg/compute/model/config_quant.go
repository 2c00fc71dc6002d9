package model

import (
	"encoding/json"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// quantisation reads quantization_config: how the files keep matrices. What the
// activations are quantised to where the model was made does not matter: here
// they are float32.
func (c *config) quantisation() Dequant {
	const key = "quantization_config"
	var raw map[string]json.RawMessage
	if !c.get(key, &raw) {
		return Plain
	}
	q := &config{file: c.file + ": " + key, raw: raw, used: map[string]bool{}}
	kind := q.dequant()
	// Which matrices are not quantised shows in the files.
	q.ignore("modules_to_not_convert", "ignored_layers", "activation_scheme", "scale_fmt", "dequantize")
	for name, value := range raw {
		if !q.used[name] && !neutral(name, value) {
			q.fail("%s is not supported", name)
		}
	}
	if q.err != nil {
		c.refuse(key, shorten(c.raw[key]), "is not supported: "+q.err.Error())
	}
	return kind
}

func (c *config) dequant() Dequant {
	var block []int
	c.get("weight_block_size", &block)
	format := c.stringOr("fmt", "e4m3")
	switch method := c.stringOr("quant_method", ""); {
	case method == "mxfp4":
		return MXFP4
	case method != "fp8":
		c.fail("quant_method is %q, supported are mxfp4 and fp8", method)
	case format != "e4m3" || !slices.Equal(block, []int{128, 128}):
		c.fail("fp8 in %s with weight_block_size %v; supported is e4m3 with [128, 128]", format, block)
	}
	return FP8Blocks
}

// quantised is a tensor of the family as the files keep it.
func (m *Model) quantised(t TensorRef, ref Ref) TensorRef {
	switch {
	case m.Spec.Quant == MXFP4 && ref.Role.IsExpert() && ref.Role <= ExpertDown:
		t.Dequant, t.Transposed = MXFP4, false // outputs come first
	case m.Spec.Quant == FP8Blocks && m.source != nil:
		if stored, ok := m.source.stat(t.Name); ok && stored.DType == safetensors.E4M3 {
			t.Dequant = FP8Blocks
		}
	}
	return t
}
