package model

// gpt2MoE: GPT-2 with experts in place of each feed-forward network: layer norms
// before, learned positions, GELU, biases everywhere, and matrices stored as
// (inputs, outputs), those of queries, keys and values side by side.
//
// Source: transformers, models/gpt2/{configuration,modeling}_gpt2.py; the
// experts' names are those that package upcycle writes.
var gpt2MoE = &family{
	modelType:     "gpt2_moe",
	architectures: []string{"GPT2MoEForCausalLM"},
	keys: map[string]string{
		"num_hidden_layers": "n_layer", "hidden_size": "n_embd", "num_attention_heads": "n_head",
		"max_position_embeddings": "n_positions", "intermediate_size": "n_inner", "hidden_act": "activation_function",
	},
	read: func(c *config, s *Spec) {
		s.TiedEmbeddings = c.boolOr("tie_word_embeddings", true)
		s.Experts = c.size("num_experts", maxExperts)
		s.Embedding = EmbeddingSpec{Positions: s.MaxPositions}
		s.fill(LayerSpec{
			Norm:   c.layerNorm("layer_norm_epsilon", 1e-5),
			Mixer:  gpt2Attention(c, s),
			MoE:    true,
			Router: RouterSpec{Kind: SoftmaxTopK, Normalise: c.boolOr("norm_topk_prob", true)},
			Expert: FFNSpec{Width: c.sizeOr("intermediate_size", 4*s.Hidden, maxWidth), Activation: c.gelu("gelu_new"), Bias: true},
		})
		if c.boolOr("scale_attn_by_inverse_layer_idx", false) {
			for l := range s.Layer {
				s.Layer[l].Mixer.Scale /= float32(l + 1)
			}
		}
		c.ignore("n_ctx", "reorder_and_upcast_attn", "task_specific_params", "summary_activation",
			"summary_proj_to_labels", "summary_type", "summary_use_proj")
	},
	tensors: map[Role]TensorRef{
		Embed:          {Name: "transformer.wte.weight"},
		EmbedPositions: {Name: "transformer.wpe.weight"},
		FinalNorm:      {Name: "transformer.ln_f.weight"},
		FinalNormBias:  {Name: "transformer.ln_f.bias"},
		InputNorm:      {Name: "transformer.h.{l}.ln_1.weight"},
		InputNormBias:  {Name: "transformer.h.{l}.ln_1.bias"},
		PostNorm:       {Name: "transformer.h.{l}.ln_2.weight"},
		PostNormBias:   {Name: "transformer.h.{l}.ln_2.bias"},
		Q:              {Name: "transformer.h.{l}.attn.c_attn.weight", Transposed: true, Part: Part{Index: 0, Count: 3}},
		K:              {Name: "transformer.h.{l}.attn.c_attn.weight", Transposed: true, Part: Part{Index: 1, Count: 3}},
		V:              {Name: "transformer.h.{l}.attn.c_attn.weight", Transposed: true, Part: Part{Index: 2, Count: 3}},
		QBias:          {Name: "transformer.h.{l}.attn.c_attn.bias", Part: Part{Index: 0, Count: 3}},
		KBias:          {Name: "transformer.h.{l}.attn.c_attn.bias", Part: Part{Index: 1, Count: 3}},
		VBias:          {Name: "transformer.h.{l}.attn.c_attn.bias", Part: Part{Index: 2, Count: 3}},
		O:              {Name: "transformer.h.{l}.attn.c_proj.weight", Transposed: true},
		OBias:          {Name: "transformer.h.{l}.attn.c_proj.bias"},
		Router:         {Name: "transformer.h.{l}.mlp.gate.weight"},
		ExpertUp:       {Name: "transformer.h.{l}.mlp.experts.{e}.c_fc.weight", Transposed: true},
		ExpertUpBias:   {Name: "transformer.h.{l}.mlp.experts.{e}.c_fc.bias"},
		ExpertDown:     {Name: "transformer.h.{l}.mlp.experts.{e}.c_proj.weight", Transposed: true},
		ExpertDownBias: {Name: "transformer.h.{l}.mlp.experts.{e}.c_proj.bias"},
	},
}

func gpt2Attention(c *config, s *Spec) MixerSpec {
	m := c.groupedQuery(s)
	m.QKVBias, m.OBias = true, true
	if !c.boolOr("scale_attn_weights", true) {
		m.Scale = 1
	}
	return m
}
