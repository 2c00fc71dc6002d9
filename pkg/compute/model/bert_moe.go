package model

import "strings"

// bertMoE: BERT as a masked language model with experts in place of each
// feed-forward network: all positions see all, norms come after, token types, a
// norm of the embeddings, and a head with a layer of its own before the embedding.
//
// Source: transformers, models/bert/{configuration,modeling}_bert.py; the
// experts' names are those that package upcycle writes.
var bertMoE = &family{
	modelType:     "bert_moe",
	architectures: []string{"BertMoEForMaskedLM"},
	read: func(c *config, s *Spec) {
		for _, key := range []string{"is_decoder", "add_cross_attention"} {
			if c.boolOr(key, false) {
				c.refuse(key, "true", "is not supported in an encoder")
			}
		}
		layer := c.bert(s)
		layer.Mixer.Bidirectional = true
		s.fill(layer)
		s.bertEnds(c)
		s.EncoderLayers = s.Layers
		if ids := c.tokens("mask_token_id"); len(ids) == 1 {
			s.Mask = int(ids[0])
		}
	},
	place: func(_ *Spec, ref Ref) (string, Ref) {
		if ref.Role >= HeadDense && ref.Role <= HeadBias {
			return "", ref
		}
		return "bert.", ref
	},
	tensors: bertTensors,
	beside:  []string{"bert.pooler.", "cls.seq_relationship."},
}

// bertTensors are BERT's names below the prefixes that its uses have.
var bertTensors = func() map[Role]TensorRef {
	names := map[Role]string{
		Embed:          "embeddings.word_embeddings.weight",
		EmbedPositions: "embeddings.position_embeddings.weight",
		EmbedTypes:     "embeddings.token_type_embeddings.weight",
		EmbedNorm:      "embeddings.LayerNorm.weight",
		HeadDense:      "cls.predictions.transform.dense.weight",
		HeadNorm:       "cls.predictions.transform.LayerNorm.weight",
		Head:           "cls.predictions.decoder.weight",
		InputNorm:      "encoder.layer.{l}.attention.output.LayerNorm.weight",
		PostNorm:       "encoder.layer.{l}.output.LayerNorm.weight",
		Q:              "encoder.layer.{l}.attention.self.query.weight",
		K:              "encoder.layer.{l}.attention.self.key.weight",
		V:              "encoder.layer.{l}.attention.self.value.weight",
		O:              "encoder.layer.{l}.attention.output.dense.weight",
		CrossNorm:      "encoder.layer.{l}.crossattention.output.LayerNorm.weight",
		CrossQ:         "encoder.layer.{l}.crossattention.self.query.weight",
		CrossK:         "encoder.layer.{l}.crossattention.self.key.weight",
		CrossV:         "encoder.layer.{l}.crossattention.self.value.weight",
		CrossO:         "encoder.layer.{l}.crossattention.output.dense.weight",
		Router:         "encoder.layer.{l}.moe.gate.weight",
		ExpertUp:       "encoder.layer.{l}.moe.experts.{e}.intermediate.dense.weight",
		ExpertDown:     "encoder.layer.{l}.moe.experts.{e}.output.dense.weight",
	}
	biases := map[Role]Role{
		EmbedNorm: EmbedNormBias, HeadDense: HeadDenseBias, HeadNorm: HeadNormBias, InputNorm: InputNormBias, PostNorm: PostNormBias,
		Q: QBias, K: KBias, V: VBias, O: OBias,
		CrossNorm: CrossNormBias, CrossQ: CrossQBias, CrossK: CrossKBias, CrossV: CrossVBias, CrossO: CrossOBias,
		ExpertUp: ExpertUpBias, ExpertDown: ExpertDownBias,
	}
	tensors := map[Role]TensorRef{HeadBias: {Name: "cls.predictions.bias"}}
	for role, name := range names {
		tensors[role] = TensorRef{Name: name}
		if bias, ok := biases[role]; ok {
			tensors[bias] = TensorRef{Name: strings.TrimSuffix(name, "weight") + "bias"}
		}
	}
	return tensors
}()

// bert reads a layer, of an encoder or a decoder.
func (c *config) bert(s *Spec) LayerSpec {
	s.Experts = c.size("num_experts", maxExperts)
	if kind := c.stringOr("position_embedding_type", "absolute"); kind != "absolute" {
		c.refuse("position_embedding_type", kind, "is not supported: only absolute is")
	}
	layer := LayerSpec{
		Order:  NormAfter,
		Norm:   c.layerNorm("layer_norm_eps", 1e-12),
		Mixer:  c.groupedQuery(s),
		MoE:    true,
		Router: RouterSpec{Kind: SoftmaxTopK, Normalise: c.boolOr("norm_topk_prob", true)},
		Expert: FFNSpec{Width: c.size("intermediate_size", maxWidth), Activation: c.gelu("gelu"), Bias: true},
	}
	layer.Mixer.QKVBias, layer.Mixer.OBias = true, true
	c.ignore("gradient_checkpointing", "chunk_size_feed_forward", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
		"pooler_num_fc_layers", "pooler_size_per_head", "pooler_type")
	c.ignore(generationKeys...)
	return layer
}

// generationKeys are settings of transformers' generate, which wrote them into
// every config.
var generationKeys = []string{"bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
	"encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
	"is_encoder_decoder", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
	"num_return_sequences", "prefix", "remove_invalid_values", "repetition_penalty", "suppress_tokens", "task_specific_params",
	"temperature", "tf_legacy_loss", "top_k", "top_p", "typical_p"}

// bertEnds reads what is before and behind the layers of one BERT.
func (s *Spec) bertEnds(c *config) {
	last := s.Layer[len(s.Layer)-1]
	s.Embedding = EmbeddingSpec{Positions: c.size("max_position_embeddings", maxPositions), Types: c.sizeOr("type_vocab_size", 2, maxTypes), Norm: last.Norm}
	s.TiedEmbeddings = c.boolOr("tie_word_embeddings", true)
	s.FinalNorm = NormSpec{}
	s.Head = HeadSpec{Bias: true, Dense: true, DenseEps: last.Norm.Eps, DenseActivation: last.Expert.Activation}
}
