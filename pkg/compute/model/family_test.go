package model

import (
	"github.com/switchyard/switchyard/pkg/compute/goldens"

	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Every committed checkpoint has the parameters that its maker counted, and no
// tensor or key that nothing here knows.
func TestGoldenParameters(t *testing.T) {
	for _, name := range goldens.Names() {
		t.Run(name, func(t *testing.T) {
			var facts struct{ Parameters int64 }
			raw, err := os.ReadFile(filepath.Join(goldens.Dir(name), "golden.json"))
			if err != nil || json.Unmarshal(raw, &facts) != nil {
				t.Fatal("reading golden.json", err)
			}
			m := openGolden(t, name)
			for _, l := range m.Spec.Layer {
				if l.Router.Correction { // which PyTorch does not count
					facts.Parameters += int64(m.Spec.Experts)
				}
			}
			if d := int64(m.Spec.Hidden); m.Spec.Task() == Answer {
				facts.Parameters -= d*d + d // the encoder's pooler, which no answer passes
			}
			if p := m.Spec.Parameters(); p.Total != facts.Parameters {
				t.Errorf("%d parameters, want %d", p.Total, facts.Parameters)
			}
			if p, want := m.Spec.Parameters(), activeInLayers(&m.Spec); p.ActiveInLayers != want {
				t.Errorf("%d active parameters in layers, want %d", p.ActiveInLayers, want)
			}
			if len(m.Unused)+len(m.Unknown) > 0 {
				t.Errorf("unused %v, unknown %v", m.Unused, m.Unknown)
			}
		})
	}
}

// What a token uses is without input embeddings, unless one is the head.
func TestActiveWithoutInput(t *testing.T) {
	const embedding = 320 * 64
	for _, tt := range []struct {
		golden string
		less   int64
	}{
		{"mixtral", embedding},
		{"qwen2_moe-mixed", 0}, // the head is the embedding
		{"bert_moe", 0},
		{"bert2bert_moe", embedding}, // the encoder's: the decoder's is the head
	} {
		t.Run(tt.golden, func(t *testing.T) {
			s, err := specOf(t, tt.golden, nil)
			if err != nil {
				t.Fatal(err)
			}
			if p := s.Parameters(); p.Active-p.ActiveWithoutInput != tt.less {
				t.Errorf("%d of %d, want %d less", p.ActiveWithoutInput, p.Active, tt.less)
			}
		})
	}
}

// activeInLayers adds up the layers' tensors, one by one, of experts the first k.
func activeInLayers(s *Spec) (n int64) {
	for ref := range s.Refs() {
		if ref.Role.IsLayer() && (!ref.Role.IsExpert() || ref.Expert < s.TopK) {
			n += int64(product(s.Shape(ref)))
		}
	}
	return n
}

// specOf is what a golden config says with some keys changed; DELETE removes one.
func specOf(t *testing.T, golden string, change map[string]any) (Spec, error) {
	t.Helper()
	dir := copyGolden(t, golden, change)
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := ParseSpec(raw, nil)
	return s, err
}

// A config that transformers saved anew, with newer names and all defaults, says
// the same.
func TestSavedConfigs(t *testing.T) {
	saved, err := filepath.Glob("testdata/saved/*.json")
	if err != nil || len(saved) == 0 {
		t.Fatal("no saved configs", err)
	}
	for _, path := range saved {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			want, err := specOf(t, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := ParseSpec(raw, nil); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v: got %+v, want %+v", err, got, want)
			}
		})
	}
}

// What tells the families' layers apart.
func TestFamilyLayers(t *testing.T) {
	type m = map[string]any
	tests := []struct {
		name, golden string
		change       m
		layer        int
		got          func(l *LayerSpec) any
		want         any
	}{
		{"qwen3_moe", "qwen3_moe", nil, 0, func(l *LayerSpec) any { return [2]any{l.Mixer.QKNorm, l.Mixer.HeadDim} }, [2]any{QKNormHead, 24}},
		{"qwen3_moe biases", "qwen3_moe", m{"attention_bias": true}, 0, biases, [2]bool{true, true}},
		{"olmoe", "olmoe", nil, 0, func(l *LayerSpec) any { return [2]any{l.Mixer.QKNorm, l.Mixer.Clip} }, [2]any{QKNormWhole, float32(0)}},
		{"olmoe clips", "olmoe", m{"clip_qkv": 8}, 0, func(l *LayerSpec) any { return l.Mixer.Clip }, float32(8)},
		{"phimoe", "phimoe", nil, 0, biases, [2]bool{true, true}},
		{"phimoe's norm", "phimoe", m{"rms_norm_eps": "DELETE", "layer_norm_eps": 1e-3}, 0, func(l *LayerSpec) any { return l.Norm }, NormSpec{LayerNorm, 1e-3}},
		{"phimoe's router", "phimoe", m{"router_jitter_noise": 0.25}, 0, func(l *LayerSpec) any { return l.Router }, RouterSpec{Kind: SparseMixer, Threshold: 0.5}},
		{"a window over all positions", "phimoe", m{"sliding_window": 131072}, 0, sight, Sight{}},
		{"llama4 rotated", "llama4", nil, 2, sight, Sight{Chunk: 16}},
		{"llama4 without positions", "llama4", nil, 3, sight, Sight{}},
		{"llama4 without a chunk's size", "llama4", m{"attention_chunk_size": "DELETE"}, 2, sight, Sight{Chunk: 8192}},
		{"llama4 without chunks", "llama4", m{"attention_chunk_size": nil, "layer_types": "DELETE"}, 2, sight, Sight{}},
		{"gpt_oss without a window's size", "gpt_oss", m{"sliding_window": "DELETE"}, 0, sight, Sight{Window: 128}},
		{"gpt_oss without windows", "gpt_oss", m{"sliding_window": nil, "layer_types": "DELETE"}, 0, sight, Sight{}},
		{"bert_moe sees ahead", "bert_moe", m{"is_causal": false}, 0, func(l *LayerSpec) any { return l.Mixer.Bidirectional }, true},
		{"llama4 every second", "llama4", m{"no_rope_layers": []int{}, "no_rope_layer_interval": 2}, 1, sight, Sight{}},
		{"llama4's router", "llama4", nil, 0, func(l *LayerSpec) any { return l.Router }, RouterSpec{Kind: TopKSigmoid, OnInput: true}},
		{"llama4's temperature", "llama4", nil, 3, temperature, TemperatureSpec{32, 0.1}},
		{"as a number", "llama4", m{"attn_temperature_tuning": 4}, 3, temperature, TemperatureSpec{32, 0.1}},
		{"without", "llama4", m{"attn_temperature_tuning": 0}, 3, temperature, TemperatureSpec{}},
		{"llama4 dense", "llama4-interleaved", nil, 0, moe, false},
		{"llama4 between", "llama4-interleaved", nil, 1, moe, true},
		{"llama4 by list", "llama4-interleaved", m{"moe_layers": []int{0}}, 0, moe, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := specOf(t, tt.golden, tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(&s.Layer[tt.layer]); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func biases(l *LayerSpec) any      { return [2]bool{l.Mixer.QKVBias, l.Mixer.OBias} }
func sight(l *LayerSpec) any       { return l.Mixer.Sight }
func temperature(l *LayerSpec) any { return l.Mixer.Temperature }
func moe(l *LayerSpec) any         { return l.MoE }
