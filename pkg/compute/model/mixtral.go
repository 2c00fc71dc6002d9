package model

// mixtral: every layer has experts, no biases, gate weights renormalised
// always, one window for all layers.
//
// Source: transformers, models/mixtral/{configuration,modeling}_mixtral.py.
var mixtral = &family{
	modelType:    "mixtral",
	architecture: "MixtralForCausalLM",
	read: func(c *config, s *Spec) {
		s.NormEps = float32(c.floatOr("rms_norm_eps", 1e-5))
		s.RopeTheta = c.ropeTheta(1e6)
		s.Experts = c.size("num_local_experts", maxExperts)
		s.ExpertWidth = c.size("intermediate_size", maxWidth)
		s.NormTopK = true
		window := c.sizeOr("sliding_window", 0, maxPositions)
		for i := range s.Layer {
			s.Layer[i] = LayerSpec{MoE: true, Window: window}
		}
	},
	names: map[Role]string{
		Router:     "model.layers.{l}.block_sparse_moe.gate.weight",
		ExpertGate: "model.layers.{l}.block_sparse_moe.experts.{e}.w1.weight",
		ExpertUp:   "model.layers.{l}.block_sparse_moe.experts.{e}.w3.weight",
		ExpertDown: "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight",
	},
}
