package model

import (
	"math"
	"strings"
	"testing"
)

// The configs of the published models, as far as they say anything.
const (
	v2Lite = `{"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27,
		"num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400, "max_position_embeddings": 163840, "rms_norm_eps": 1e-06, "rope_theta": 10000,
		"q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
		"num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "norm_topk_prob": false,
		"n_group": 1, "topk_group": 1, "topk_method": "greedy", "scoring_func": "softmax", "seq_aux": true, "aux_loss_alpha": 0.001, "routed_scaling_factor": 1.0,
		"rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096}}`
	v3 = `{"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
		"num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "max_position_embeddings": 163840, "ep_size": 1, "moe_layer_freq": 1,
		"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
		"num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "norm_topk_prob": true, "n_group": 8,
		"topk_group": 4, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 1, "rope_theta": 10000,
		"rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}}`
)

// kimi is DeepSeek-V3's config with what Kimi-K2 has of its own.
var kimi = strings.NewReplacer(`"deepseek_v3"`, `"kimi_k2"`, `_heads": 128`, `_heads": 64`, `"vocab_size": 129280`, `"vocab_size": 163840`,
	`"n_routed_experts": 256`, `"n_routed_experts": 384`, `"first_k_dense_replace": 3`, `"first_k_dense_replace": 1`, `"n_group": 8`, `"n_group": 1`,
	`"topk_group": 4`, `"topk_group": 1`, `"beta_fast": 32`, `"beta_fast": 1.0`).Replace(v3)

// The sizes are those that the makers give: 15.7 B with 2.4 B active, 671 B with
// 37 B, 1 T with 32 B.
func TestDeepseekSpecs(t *testing.T) {
	yarn := 0.1*math.Log(40) + 1
	for _, tt := range []struct {
		name, config  string
		total, active float64 // billions
		dense, groups int
		scores        float64
	}{
		{"v2-lite", v2Lite, 15.7, 2.4, 1, 0, math.Pow(0.0707*math.Log(40)+1, 2)},
		{"v3", v3, 671, 37, 3, 8, yarn * yarn},
		{"kimi", kimi, 1026, 32, 1, 1, yarn * yarn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := parse([]byte(tt.config), nil)
			if err != nil || len(p.unknown) > 0 {
				t.Fatal(p.unknown, err)
			}
			s, count := p.spec, p.spec.Parameters()
			near := func(what string, got, want float64) {
				if math.Abs(got/want-1) > 0.03 {
					t.Errorf("%s: %g, want %g", what, got, want)
				}
			}
			near("total", float64(count.Total)/1e9, tt.total)
			near("active", float64(count.ActiveWithoutInput)/1e9, tt.active)
			m := s.Layer[5].Mixer
			near("scale", float64(m.Scale)*math.Sqrt(192), tt.scores)
			if s.Layers-s.MoELayers() != tt.dense || s.Layer[5].Router.Groups != tt.groups || m.Rope.Scaling.Attention != 1 {
				t.Errorf("%d dense layers, %+v, %+v", s.Layers-s.MoELayers(), s.Layer[5].Router, m.Rope)
			}
		})
	}
}

func TestDeepseekRefusals(t *testing.T) {
	for _, tt := range []struct{ config, from, to, want string }{
		{v2Lite, `"scoring_func": "softmax"`, `"scoring_func": "sigmoid"`, "scoring_func = sigmoid"},
		{v2Lite, `"norm_topk_prob": false`, `"norm_topk_prob": true`, "norm_topk_prob = true"},
		{v2Lite, `"topk_method": "greedy"`, `"topk_method": "noaux_tc"`, "topk_method = noaux_tc"},
		{v2Lite, `"topk_method": "greedy"`, `"topk_method": "group_limited_greedy", "attention_bias": true`, "attention_bias"},
		{v2Lite, `"num_key_value_heads": 16`, `"num_key_value_heads": 8`, "num_key_value_heads 8"},
		{v2Lite, `"n_shared_experts": 2`, `"n_shared_experts": 9999`, "wider"},
		{v2Lite, `"mscale": 0.707`, `"mscale": -1`, "rope_scaling: mscale = -1"},
		{v2Lite, `"factor": 40`, `"factor": 0`, "factor = 0"},
		{v2Lite, `"type": "yarn"`, `"type": "linear"`, "rope_scaling: rope_type = linear"},
		{v2Lite, `"factor": 40`, `"factor": 40, "warp": 3`, "rope_scaling: warp = 3"},
		{v3, `"scoring_func": "sigmoid"`, `"scoring_func": "softmax"`, "scoring_func = softmax"},
		{v3, `"topk_method": "noaux_tc"`, `"topk_method": "greedy"`, "topk_method = greedy"},
		{v3, `"n_group": 8`, `"n_group": 7`, "multiple of n_group 7"},
		{v3, `"n_group": 8`, `"n_group": 256`, "more than the 4 experts"},
		{v3, `"topk_group": 4`, `"topk_group": 9`, "topk_group 9"},
		{v3, "\"n_group\": 8,\n\t\t\"topk_group\": 4", `"n_group": 256, "topk_group": 8`, "best two"},
		{v3, `"q_lora_rank": 1536`, `"q_lora_rank": -1`, "q_lora_rank = -1"},
	} {
		changed := strings.Replace(tt.config, tt.from, tt.to, 1)
		if _, _, err := ParseSpec([]byte(changed), nil); changed == tt.config || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.to, err, tt.want)
		}
	}
}

// Both spellings of rope settings mean the same; a query that is not compressed
// has null for its rank; layers between multiples of moe_layer_freq are dense.
func TestDeepseekSpellings(t *testing.T) {
	newer := strings.NewReplacer(`"rope_scaling"`, `"rope_parameters"`, `"type": "yarn"`, `"rope_type": "yarn", "rope_theta": 10000`, `"rope_theta": 10000,`+"\n\t\t", "").Replace(v3)
	spec := func(config string) Spec {
		s, _, err := ParseSpec([]byte(config), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := spec(v3).Layer[4].Mixer, spec(newer).Layer[4].Mixer
	if !a.Rope.Equal(&b.Rope) || a.Scale != b.Scale {
		t.Errorf("%+v and %+v", a.Rope, b.Rope)
	}
	if s := spec(v2Lite); s.Shape(Ref{Role: Q}) == nil || s.Has(Ref{Role: QDown}) {
		t.Error("a query that is compressed")
	}
	sparse := spec(strings.Replace(v3, `"moe_layer_freq": 1`, `"moe_layer_freq": 2`, 1))
	if sparse.Layer[5].MoE || !sparse.Layer[4].MoE || sparse.Layer[2].MoE {
		t.Error("moe_layer_freq 2")
	}
	if s := spec(strings.Replace(v3, `"scoring_func"`, `"rope_interleave": false, "scoring_func"`, 1)); s.Layer[4].Mixer.Rope.Kind != HalfSplit {
		t.Error("rope_interleave false")
	}
}

// The tensors of layers that predict further tokens are not missed.
func TestNextLayers(t *testing.T) {
	m := &Model{Spec: Spec{Layers: 61, NextLayers: 1}, family: deepseekV3}
	for name, want := range map[string]bool{
		"model.layers.61.eh_proj.weight": true, "model.layers.60.eh_proj.weight": false,
		"model.layers.62.eh_proj.weight": false, "model.layers.6.x": false, "model.layers.611.x": false,
	} {
		if m.leavesOut(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
