package model

// mixtral: every layer has experts, no biases, gate weights renormalised
// always, one window for all layers.
//
// Source: transformers, models/mixtral/{configuration,modeling}_mixtral.py.
var mixtral = &family{
	modelType:     "mixtral",
	architectures: []string{"MixtralForCausalLM"},
	gguf:          "llama",
	read: func(c *config, s *Spec) {
		layer := LayerSpec{
			Norm:   c.rmsNorm(1e-5),
			Mixer:  c.groupedQuery(s),
			MoE:    true,
			Router: RouterSpec{Kind: SoftmaxTopK, Normalise: true},
			Expert: FFNSpec{Width: c.size("intermediate_size", maxWidth)},
		}
		layer.Mixer.Rope = c.rope(layer.Mixer.HeadDim, 1e6)
		layer.Mixer.Window = c.window(s)
		s.Experts = c.experts()
		s.fill(layer)
	},
	tensors: map[Role]TensorRef{
		Router:     {Name: "model.layers.{l}.block_sparse_moe.gate.weight"},
		ExpertGate: {Name: "model.layers.{l}.block_sparse_moe.experts.{e}.w1.weight"},
		ExpertUp:   {Name: "model.layers.{l}.block_sparse_moe.experts.{e}.w3.weight"},
		ExpertDown: {Name: "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight"},
	},
}
