package model

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// quantisation reads quantization_config: how the files keep matrices. What the
// activations are quantised to where the model was made does not matter: here
// they are float32.
func (c *config) quantisation() (kind Dequant, group int, shuffled bool) {
	const key = "quantization_config"
	var raw map[string]json.RawMessage
	if !c.get(key, &raw) {
		return Plain, 0, false
	}
	q := &config{file: c.file + ": " + key, raw: raw, used: map[string]bool{}}
	kind, group = q.dequant()
	shuffled = (kind == GPTQ || kind == GPTQ2) && q.boolOr("desc_act", true)
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
	return kind, group, shuffled
}

func (c *config) dequant() (kind Dequant, group int) {
	var block []int
	c.get("weight_block_size", &block)
	format := c.stringOr("fmt", "e4m3")
	switch method := c.stringOr("quant_method", ""); {
	case method == "mxfp4":
		return MXFP4, 0
	case method == "gptq":
		return c.gptq()
	case method == "awq":
		return c.awq()
	case method == packMethod:
		return c.packed()
	case method != "fp8":
		c.fail("quant_method is %q, supported are mxfp4, fp8, gptq, awq and compressed-tensors", method)
	case format != "e4m3" || !slices.Equal(block, []int{128, 128}):
		c.fail("fp8 in %s with weight_block_size %v; supported is e4m3 with [128, 128]", format, block)
	}
	return FP8Blocks, 0
}

// gptq reads what files of GPTQ are packed by. How the codes were found does not matter.
func (c *config) gptq() (kind Dequant, group int) {
	c.ignore("desc_act", "sym", "static_groups", "true_sequential", "damp_percent", "damp_auto_increment", "lm_head", "model_name_or_path",
		"model_file_base_name", "meta", "quantizer", "dataset", "batch_size", "exllama_config", "max_input_length", "use_cuda_fp16", "is_marlin_format")
	switch format := c.stringOr("checkpoint_format", "gptq"); format {
	case "gptq":
		kind = GPTQ
	case "gptq_v2":
		kind = GPTQ2
	default:
		c.fail("checkpoint_format is %q, supported are gptq and gptq_v2", format)
	}
	if pack := c.stringOr("pack_dtype", "int32"); pack != "int32" {
		c.fail("pack_dtype is %q, supported is int32", pack)
	}
	return kind, c.int4Group("bits", "group_size")
}

// awq reads the same of AWQ, which has two spellings.
func (c *config) awq() (Dequant, int) {
	c.ignore("backend", "do_fuse", "fuse_max_seq_len", "exllama_config")
	if version := strings.ToLower(c.stringOr("version", "gemm")); version != "gemm" {
		c.fail("version is %q, supported is gemm", version)
	}
	if !c.boolOr("zero_point", true) {
		c.fail("zero_point is false, supported is true")
	}
	if _, old := c.raw["w_bit"]; old {
		return AWQ, c.int4Group("w_bit", "q_group_size")
	}
	return AWQ, c.int4Group("bits", "group_size")
}

// int4Group reads how many inputs share a scale; all where it is -1.
func (c *config) int4Group(bitsKey, groupKey string) int {
	bits, group := 0, 0
	c.get(bitsKey, &bits)
	c.get(groupKey, &group)
	if bits != 4 {
		c.fail("%s is %d, supported is 4", bitsKey, bits)
	}
	if group == -1 {
		return maxWidth
	}
	if group < 1 || group > maxWidth {
		c.fail("%s is %d, neither -1 nor 1 to %d", groupKey, group, maxWidth)
		return 1
	}
	return group
}

// quantised returns a tensor of the family as the files keep it.
func (m *Model) quantised(t TensorRef, ref Ref) TensorRef {
	switch {
	case m.Spec.Quant == MXFP4 && ref.Role.IsExpert() && ref.Role <= ExpertDown:
		t.Dequant, t.Transposed = MXFP4, false // outputs come first
	case m.Spec.Quant == FP8Blocks && m.source != nil:
		if stored, ok := m.source.stat(t.Name); ok && stored.DType == safetensors.E4M3 {
			t.Dequant = FP8Blocks
		}
	case (m.Spec.Quant.Int4() || m.Spec.Quant.Grouped()) && m.source != nil:
		packed := t
		packed.Dequant, packed.Group = m.Spec.Quant, m.Spec.QuantGroup
		packed.Transposed = t.Transposed && !m.Spec.Quant.Grouped() // outputs come first
		there := func(name string) bool { _, ok := m.source.stat(name); return ok }
		parts := packed.names()
		if there(parts[0]) || !there(t.Name) && slices.ContainsFunc(parts, there) { // what is missing is told by its name
			return packed
		}
	}
	return t
}
