package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// shapes are the config.json of the models that Synthetic knows by name; the
// published ones without the keys that change no shape and no computation.
var shapes = map[string]string{
	"mixtral-1b": `{"model_type": "mixtral", "num_hidden_layers": 8, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4,
		"vocab_size": 32000, "max_position_embeddings": 32768, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 4096,
		"bos_token_id": 1, "eos_token_id": 2}`,
	"tiny": `{"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
		"vocab_size": 320, "max_position_embeddings": 4096, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 96,
		"bos_token_id": 1, "eos_token_id": 2}`,
	"mixtral-8x7b": `{"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
		"vocab_size": 32000, "max_position_embeddings": 32768, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 14336,
		"rms_norm_eps": 1e-05, "rope_theta": 1000000.0}`,
	"phi-3.5-moe": `{"model_type": "phimoe", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
		"vocab_size": 32064, "max_position_embeddings": 131072, "num_local_experts": 16, "num_experts_per_tok": 2, "intermediate_size": 6400,
		"attention_bias": true, "lm_head_bias": true, "rms_norm_eps": 1e-05, "rope_theta": 10000.0}`,
	"qwen3-30b-a3b": `{"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
		"vocab_size": 151936, "max_position_embeddings": 40960, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144,
		"norm_topk_prob": true, "decoder_sparse_step": 1, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0}`,
	"deepseek-v2-lite": `{"model_type": "deepseek_v2", "num_hidden_layers": 27, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16,
		"vocab_size": 102400, "max_position_embeddings": 163840, "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408,
		"intermediate_size": 10944, "first_k_dense_replace": 1, "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
		"norm_topk_prob": false, "routed_scaling_factor": 1.0, "scoring_func": "softmax", "topk_method": "greedy", "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
		"rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096}}`,
	"gpt-oss-20b": `{"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
		"vocab_size": 201088, "max_position_embeddings": 131072, "num_local_experts": 32, "num_experts_per_tok": 4, "intermediate_size": 2880,
		"attention_bias": true, "sliding_window": 128, "swiglu_limit": 7.0, "rms_norm_eps": 1e-05, "rope_theta": 150000,
		"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 4096, "truncate": false},
		"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}`,
	"llama-4-scout": `{"model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
		"vocab_size": 202048, "max_position_embeddings": 131072, "num_local_experts": 16, "num_experts_per_tok": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
		"interleave_moe_layer_step": 1, "attention_chunk_size": 8192, "use_qk_norm": true, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
		"rope_scaling": {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 8192}}`,
}

// layersVocabulary is that of a synthetic model of which only some layers are made: as
// small as a benchmark of layers needs it.
const layersVocabulary = 1024

// shapeConfig returns the config of a name: of all layers or, as NAME:LAYERS, of so many
// with experts, a small vocabulary around them.
func shapeConfig(name string) ([]byte, error) {
	shape, count, some := strings.Cut(name, ":")
	config, ok := shapes[shape]
	if !ok {
		return nil, fmt.Errorf("no synthetic model is called %q; there are %s, and each as NAME:LAYERS", name, strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	}
	if !some {
		return []byte(config), nil
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(config), &keys); err != nil {
		return nil, fmt.Errorf("synthetic model %s: %w", shape, err)
	}
	layers, err := strconv.Atoi(count)
	if most, ok := keys["num_hidden_layers"].(float64); !ok || err != nil || layers < 1 || float64(layers) > most {
		return nil, fmt.Errorf("synthetic model %s has %v layers, not %q", shape, most, count)
	}
	keys["num_hidden_layers"], keys["vocab_size"] = layers, layersVocabulary
	if _, ok := keys["first_k_dense_replace"]; ok {
		keys["first_k_dense_replace"] = 0
	}
	return json.Marshal(keys)
}

// shapeTensors returns the names of a synthetic model's tensors, whatever its family
// calls them and however it lays them out.
func shapeTensors() map[Role]TensorRef {
	names := map[Role]TensorRef{}
	for role := range roles {
		names[role] = TensorRef{Name: role.String() + ".{l}.{e}"}
	}
	return names
}
