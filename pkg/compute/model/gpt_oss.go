package model

// gptOSS: attention sinks, a sliding window in some of the layers, biases
// everywhere, and experts with clamped activations that are stored fused: gate and
// up interleaved, in bf16 or MXFP4.
//
// Source: transformers, models/gpt_oss/{configuration,modeling}_gpt_oss.py.
var gptOSS = &family{
	modelType:     "gpt_oss",
	architectures: []string{"GptOssForCausalLM"},
	defaults:      map[string]string{"sliding_window": "128"},
	read: func(c *config, s *Spec) {
		c.ignore("experts_per_token", "initial_context_length") // said by other keys, too
		c.size("head_dim", maxHeadDim)
		layer := LayerSpec{
			Norm:   c.rmsNorm(1e-5),
			Mixer:  c.groupedQuery(s),
			MoE:    true,
			Router: RouterSpec{Kind: TopKSoftmax, Bias: true},
			Expert: FFNSpec{
				Width: c.size("intermediate_size", maxWidth), Bias: true,
				Activation: ClampedSwiGLU, Limit: float32(c.floatOr("swiglu_limit", 7)),
			},
		}
		layer.Mixer.Rope = c.rope(layer.Mixer.HeadDim, 150000)
		layer.Mixer.QKVBias = c.boolOr("attention_bias", true)
		layer.Mixer.OBias = layer.Mixer.QKVBias
		layer.Mixer.Sinks = true
		s.Experts = c.size("num_local_experts", maxExperts)
		s.fill(layer)
		gptOSSWindows(c, s)
	},
	tensors: map[Role]TensorRef{
		Router:         {Name: "model.layers.{l}.mlp.router.weight"},
		RouterBias:     {Name: "model.layers.{l}.mlp.router.bias"},
		ExpertGate:     {Name: gptOSSExperts + "gate_up_proj", Stacked: true, Transposed: true, Part: Part{0, 2, true}},
		ExpertUp:       {Name: gptOSSExperts + "gate_up_proj", Stacked: true, Transposed: true, Part: Part{1, 2, true}},
		ExpertDown:     {Name: gptOSSExperts + "down_proj", Stacked: true, Transposed: true},
		ExpertGateBias: {Name: gptOSSExperts + "gate_up_proj_bias", Stacked: true, Part: Part{0, 2, true}},
		ExpertUpBias:   {Name: gptOSSExperts + "gate_up_proj_bias", Stacked: true, Part: Part{1, 2, true}},
		ExpertDownBias: {Name: gptOSSExperts + "down_proj_bias", Stacked: true},
	},
}

const gptOSSExperts = "model.layers.{l}.mlp.experts."

// gptOSSWindows gives the layers that layer_types calls sliding their window;
// without it every second layer, from the first on, has one.
func gptOSSWindows(c *config, s *Spec) {
	window := c.sizeOr("sliding_window", 0, maxPositions) // null is none
	var kinds []string
	if c.get("layer_types", &kinds) && len(kinds) != s.Layers {
		c.fail("layer_types names %d layers of %d", len(kinds), s.Layers)
		return
	}
	for i := range s.Layer {
		if (kinds == nil && i%2 == 0) || (kinds != nil && kinds[i] == "sliding_attention") {
			s.Layer[i].Mixer.Window = window
		}
	}
}
