package model

import "slices"

// llama4Text: layers with rotary embedding, which see their chunk of positions
// only, and every few layers one without positions, which sees all; one expert a
// token, whose input the gate scales, beside a shared one; dense layers between.
//
// Source: transformers, models/llama4/{configuration,modeling}_llama4.py.
var llama4Text = &family{
	modelType:     "llama4_text",
	architectures: []string{"Llama4ForCausalLM"},
	defaults:      map[string]string{"num_experts_per_tok": "1", "max_position_embeddings": "131072", "attention_chunk_size": "8192"},
	read:          readLlama4,
	tensors:       llama4Tensors,
}

// llama4 is the text model inside a multimodal one.
var llama4 = &family{
	modelType:     "llama4",
	architectures: []string{"Llama4ForConditionalGeneration"},
	nested:        "text_config",
	defaults:      llama4Text.defaults,
	read:          readLlama4,
	tensors:       llama4Tensors,
	prefix:        "language_model.",
	beside:        []string{"vision_model.", "multi_modal_projector."},
}

// llama4Tensors: experts lie in one tensor a layer, as (E, inputs, outputs).
var llama4Tensors = map[Role]TensorRef{
	Router:     {Name: "model.layers.{l}.feed_forward.router.weight"},
	DenseGate:  {Name: "model.layers.{l}.feed_forward.gate_proj.weight"},
	DenseUp:    {Name: "model.layers.{l}.feed_forward.up_proj.weight"},
	DenseDown:  {Name: "model.layers.{l}.feed_forward.down_proj.weight"},
	SharedGate: {Name: "model.layers.{l}.feed_forward.shared_expert.gate_proj.weight"},
	SharedUp:   {Name: "model.layers.{l}.feed_forward.shared_expert.up_proj.weight"},
	SharedDown: {Name: "model.layers.{l}.feed_forward.shared_expert.down_proj.weight"},
	ExpertGate: {Name: "model.layers.{l}.feed_forward.experts.gate_up_proj", Stacked: true, Transposed: true, Part: Part{Index: 0, Count: 2}},
	ExpertUp:   {Name: "model.layers.{l}.feed_forward.experts.gate_up_proj", Stacked: true, Transposed: true, Part: Part{Index: 1, Count: 2}},
	ExpertDown: {Name: "model.layers.{l}.feed_forward.experts.down_proj", Stacked: true, Transposed: true},
}

func readLlama4(c *config, s *Spec) {
	width := c.size("intermediate_size", maxWidth)
	layer := LayerSpec{
		Norm:   c.rmsNorm(1e-5),
		Mixer:  c.groupedQuery(s),
		MoE:    true,
		Router: RouterSpec{Kind: TopKSigmoid, OnInput: true},
		Expert: FFNSpec{Width: width},
		Shared: SharedSpec{FFNSpec: FFNSpec{Width: width}},
	}
	layer.Mixer.QKVBias = c.boolOr("attention_bias", false)
	layer.Mixer.OBias = layer.Mixer.QKVBias
	s.Experts = c.experts()
	s.fill(layer)
	llama4Mixers(c, s)
	llama4Dense(c, s)
}

// llama4Mixers tells layers with rotary embedding from those without: the list has
// a zero for each of the latter; without one it is every no_rope_layer_interval-th.
func llama4Mixers(c *config, s *Spec) {
	rotated, free := s.Layer[0].Mixer, s.Layer[0].Mixer
	rotated.Rope = c.rope(rotated.HeadDim, 5e5)
	rotated.Rope.Kind = Interleaved
	rotated.Chunk = c.sizeOr("attention_chunk_size", 0, maxPositions) // null is none
	if c.boolOr("use_qk_norm", true) {
		rotated.QKNorm = QKNormL2
	}
	tuned := TemperatureSpec{Floor: c.floatOr("floor_scale", 8192), Scale: c.floatOr("attn_scale", 0.1)}
	if c.truthOr("attn_temperature_tuning", true) {
		free.Temperature = tuned
	}
	every, list := c.sizeOr("no_rope_layer_interval", 4, maxLayers), c.ints("no_rope_layers")
	if len(list) > 0 && len(list) < s.Layers {
		c.fail("no_rope_layers has %d entries for %d layers", len(list), s.Layers)
		return
	}
	for i := range s.Layer {
		s.Layer[i].Mixer = rotated
		if len(list) > 0 && list[i] == 0 || len(list) == 0 && (i+1)%every == 0 {
			s.Layer[i].Mixer = free
		}
	}
}

// llama4Dense makes the layers dense that moe_layers does not name; without it
// every interleave_moe_layer_step-th has experts.
func llama4Dense(c *config, s *Spec) {
	step := c.sizeOr("interleave_moe_layer_step", 1, maxLayers)
	var named []int
	listed := c.get("moe_layers", &named)
	c.ignore("intermediate_size_mlp") // unless a layer is dense
	for i := range s.Layer {
		if listed && slices.Contains(named, i) || !listed && (i+1)%step == 0 {
			continue
		}
		s.Layer[i].makeDense(FFNSpec{Width: c.size("intermediate_size_mlp", maxWidth)})
	}
}
