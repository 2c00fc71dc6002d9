package model

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
)

func openGolden(t *testing.T, name string) *Model {
	t.Helper()
	m, err := Open(goldens.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

func closeAfter(t *testing.T, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// row is the parts of a layer that differ between these families.
type row struct {
	moe                                           bool
	kvHeads, window, width, shared, experts, topK int
	normalise, bias                               bool
}

func rowOf(s *Spec, layer int) row {
	l := &s.Layer[layer]
	return row{l.MoE, l.Mixer.KVHeads, l.Mixer.Window, l.Dense.Width + l.Expert.Width, l.Shared.Width, s.Experts, s.TopK, l.Router.Normalise, l.Mixer.QKVBias}
}

// deepseekRows are a dense layer and two with experts.
func deepseekRows(shared, topK int, normalise bool) []row {
	moe := row{true, 4, 0, 40, shared, 16, topK, normalise, false}
	return []row{{false, 4, 0, 144, 0, 16, topK, false, false}, moe, moe}
}

func TestGoldenSpecs(t *testing.T) {
	mixed, dense := row{true, 2, 0, 48, 64, 6, 2, true, true}, row{false, 2, 0, 128, 0, 6, 2, false, true}
	tests := []struct {
		name, family string
		layers       []row
		parameters   int64 // golden.json's
		tied         bool
	}{
		{"mixtral", "mixtral", slices.Repeat([]row{{true, 2, 0, 96, 0, 8, 2, true, false}}, 3), 522176, false},
		{"mixtral-window", "mixtral", slices.Repeat([]row{{true, 2, 16, 96, 0, 4, 2, true, false}}, 3), 300224, false},
		{"qwen2_moe", "qwen2_moe", slices.Repeat([]row{{true, 4, 0, 48, 112, 12, 4, false, true}}, 3), 489920, false},
		{"qwen2_moe-mixed", "qwen2_moe", []row{dense, mixed, dense, dense, dense}, 239200, true},
		{"deepseek_v2", "deepseek_v2", deepseekRows(80, 6, false), 398368, false},
		{"deepseek_v2-grouped", "deepseek_v2", deepseekRows(80, 4, false), 403120, false},
		{"deepseek_v3", "deepseek_v3", deepseekRows(40, 4, true), 387760 + 2*16, false}, // golden.json does not count corrections
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := openGolden(t, tt.name)
			s := m.Spec
			for l, want := range tt.layers {
				if got := rowOf(&s, l); got != want {
					t.Errorf("layer %d is %+v, want %+v", l, got, want)
				}
			}
			if s.Family != tt.family || s.TiedEmbeddings != tt.tied || s.Layers != len(tt.layers) {
				t.Errorf("%s with %d layers, tied: %v", s.Family, s.Layers, s.TiedEmbeddings)
			}
			if p := s.Parameters(); p.Total != tt.parameters || m.Bytes != 2*tt.parameters {
				t.Errorf("parameters %+v in %d bytes, want %d", p, m.Bytes, tt.parameters)
			}
			if s.BOS != 1 || !slices.Equal(s.EOS, []uint32{2}) || m.Generation != DefaultGeneration() || len(m.Unused)+len(m.Unknown) > 0 {
				t.Errorf("BOS %d, EOS %v, %+v, unused %v, unknown %v", s.BOS, s.EOS, m.Generation, m.Unused, m.Unknown)
			}
			checkTensors(t, m)
		})
	}
}

// checkTensors reads every tensor and compares its size with its shape.
func checkTensors(t *testing.T, m *Model) {
	t.Helper()
	for ref := range m.Spec.Refs() {
		x, err := m.Tensor(ref)
		if err != nil || len(x.Data) != 2*x.Len() || !slices.Equal(x.Shape, m.Spec.Shape(ref)) {
			t.Fatalf("%v: %v, %v", ref, x.Shape, err)
		}
	}
	for _, ref := range []Ref{{Role: Q, Layer: m.Spec.Layers}, {Role: Q, Layer: -1}, {ExpertUp, 1, m.Spec.Experts}, {Role: roles}} {
		if _, err := m.Tensor(ref); err == nil {
			t.Errorf("%v: no error", ref)
		}
	}
}

func TestDemo(t *testing.T) {
	m, err := Demo()
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	checkTensors(t, m)
	if p := m.Spec.Parameters(); p.Total/1e5 != 178 && p.Total/1e5 != 179 || p.Active/1e5 != 68 {
		t.Errorf("%+v, the card says 17.9 M and 6.8 M", p)
	}
	if m.Name != "demo" || m.Spec.BOS != 0 || !slices.Equal(m.Spec.EOS, []uint32{0, 1}) {
		t.Errorf("%s, BOS %d, EOS %v", m.Name, m.Spec.BOS, m.Spec.EOS)
	}
	if _, ok := m.File("tokenizer.json"); !ok {
		t.Error("no tokenizer.json")
	}
	disk, err := Open("../../../models/demo")
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, disk)
	if disk.Hash != m.Hash {
		t.Errorf("hash embedded %s, mapped %s", m.Hash, disk.Hash)
	}
	head, _ := m.Tensor(Ref{Role: Head})
	embed, _ := m.Tensor(Ref{Role: Embed})
	if &head.Data[0] != &embed.Data[0] {
		t.Error("the tied head is not the embedding")
	}
	up := Ref{Role: ExpertUp, Layer: 3, Expert: 5}
	if s, err := m.Stat(up); err != nil || s.Len() != 128*256 || !slices.Equal(s.Shape, m.Spec.Shape(up)) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := m.Stat(Ref{Role: ExpertUp, Layer: 3, Expert: 50}); err == nil {
		t.Errorf("%+v", s)
	}
}

func TestFileStaysInside(t *testing.T) {
	m := openGolden(t, "mixtral")
	for _, name := range []string{"../mixtral/config.json", "/etc/hostname", ".", "..", "", `..\x`, "nothing", "chat_templates/", "chat_templates/../config.json", "chat_templates/x"} {
		if _, ok := m.File(name); ok {
			t.Errorf("%q was read", name)
		}
	}
	if _, ok := m.File("golden.json"); !ok {
		t.Error("golden.json was not read")
	}
	dir := copyGolden(t, "mixtral", nil)
	if err := os.Mkdir(filepath.Join(dir, "chat_templates"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "chat_templates", "tool_use.jinja"), []byte("T"), 0o600); err != nil {
		t.Fatal(err)
	}
	more, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, more)
	if data, ok := more.File("chat_templates/tool_use.jinja"); !ok || string(data) != "T" {
		t.Errorf("the further template is %q, %v", data, ok)
	}
}

// copyGolden makes a changeable copy of a checkpoint's config and weights.
func copyGolden(t *testing.T, name string, change map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	var config map[string]any
	raw, err := os.ReadFile(filepath.Join(goldens.Dir(name), "config.json"))
	if err != nil || json.Unmarshal(raw, &config) != nil {
		t.Fatal(err)
	}
	maps.Copy(config, change)
	for key, value := range change {
		if value == "DELETE" {
			delete(config, key)
		}
	}
	raw, _ = json.Marshal(config)
	write(t, dir, "config.json", raw)
	weights, err := filepath.Abs(filepath.Join(goldens.Dir(name), singleFile))
	if err != nil || os.Symlink(weights, filepath.Join(dir, singleFile)) != nil {
		t.Fatal("linking weights", err)
	}
	return dir
}

// write makes a file anew: what a link of that name leads to stays as it is.
func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Keys that say nothing to anybody are named, so that they can be told; known
// ones that change nothing are not.
func TestUnknownKeys(t *testing.T) {
	m, err := Open(copyGolden(t, "mixtral", map[string]any{
		"zeta": 1, "frobnicate": "yes", "off": false, "none": nil,
		"transformers_version": "5.0", "_name_or_path": "x", "hidden_dropout": 0.1,
	}))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	if want := []string{"frobnicate", "zeta"}; !slices.Equal(m.Unknown, want) {
		t.Errorf("unknown are %q, want %q", m.Unknown, want)
	}
}

func TestConfigRefusals(t *testing.T) {
	type m = map[string]any
	tests := []struct {
		golden string
		change m
		want   string
	}{
		{"mixtral", m{"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama"}, "supported are MixtralForCausalLM"},
		{"mixtral", m{"architectures": "DELETE", "model_type": "gpt2"}, `"gpt2"`},
		{"mixtral", m{"hidden_act": "gelu"}, "hidden_act = gelu"},
		{"mixtral", m{"rope_scaling": m{"type": "linear", "factor": 2}}, "rope_scaling"},
		{"mixtral", m{"rope_parameters": m{"rope_type": "yarn", "rope_theta": 1e6}}, "rope_parameters"},
		{"mixtral", m{"rope_parameters": m{"rope_type": "default", "partial_rotary_factor": 1.5}}, "partial_rotary_factor 1.5"},
		{"mixtral", m{"rope_parameters": m{"rope_type": "default", "surprise": 3}}, "rope_parameters: surprise = 3"},
		{"mixtral", m{"rope_parameters": m{"sliding_attention": m{"rope_theta": 1e4}}}, "nothing for layers of type full_attention"},
		{"mixtral", m{"quantization_config": m{"bits": 4}}, `quantization_config = {"bits":4}`},
		{"mixtral", m{"attention_bias": true}, "attention_bias = true"},
		{"mixtral", m{"clip_qkv": 8}, "clip_qkv = 8"},
		{"mixtral", m{"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"},
		{"mixtral", m{"output_multiplier_scale": 0.5}, "output_multiplier_scale = 0.5"},
		{"mixtral", m{"is_causal": false}, "is_causal = false"},
		{"bert_moe", m{"is_causal": true}, "is_causal = true"},
		{"gpt_oss", m{"sliding_window": nil}, "layer_types"},
		{"mixtral", m{"num_hidden_layers": 0}, "num_hidden_layers = 0"},
		{"mixtral", m{"num_hidden_layers": -3}, "num_hidden_layers = -3"},
		{"mixtral", m{"num_hidden_layers": 1 << 40}, "num_hidden_layers"},
		{"mixtral", m{"num_hidden_layers": "3"}, "num_hidden_layers"},
		{"mixtral", m{"num_hidden_layers": 2.5}, "num_hidden_layers"},
		{"mixtral", m{"num_hidden_layers": 4}, "is missing"},
		{"mixtral", m{"hidden_size": "DELETE"}, "hidden_size is missing"},
		{"mixtral", m{"hidden_size": 65}, "hidden_size 65"},
		{"mixtral", m{"head_dim": 15}, "turns pairs"},
		{"mixtral", m{"num_key_value_heads": 3}, "multiple of num_key_value_heads 3"},
		{"mixtral", m{"num_experts_per_tok": 9}, "more than the 8 experts"},
		{"mixtral", m{"rms_norm_eps": 0}, "rms_norm_eps"},
		{"mixtral", m{"vocab_size": 321}, "has shape [320 64]"},
		{"mixtral", m{"eos_token_id": 320}, "eos_token_id 320"},
		{"mixtral", m{"eos_token_id": "x"}, "eos_token_id"},
		{"mixtral", m{"bos_token_id": 320}, "bos_token_id 320"},
		{"mixtral", m{"sliding_window": 0}, "sliding_window = 0"},
		{"mixtral-window", m{"layer_types": []string{"full_attention", "full_attention", "full_attention"}}, "layer_types"},
		{"qwen2_moe", m{"use_sliding_window": true, "sliding_window": 16}, "use_sliding_window = true"},
		{"qwen2_moe", m{"mlp_only_layers": []int{0, 1, 2}}, "no layer has experts"},
		{"qwen2_moe", m{"shared_expert_intermediate_size": 64}, "shape"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			dir := copyGolden(t, tt.golden, tt.change)
			_, err := Open(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestConfigTolerates(t *testing.T) {
	type m = map[string]any
	for _, change := range []m{
		{"rope_theta": "DELETE", "rope_parameters": m{"rope_type": "default", "rope_theta": 1e6}},
		{"rope_scaling": nil, "attention_bias": false, "quantization_config": nil, "transformers_version": "5.0", "use_cache": true},
		{"output_attentions": true, "output_hidden_states": true, "is_causal": true},
		{"attention_dropout": 0.1, "output_router_logits": true, "chunk_size_feed_forward": 0, "partial_rotary_factor": 1.0},
		{"layer_types": []string{"full_attention", "full_attention", "full_attention"}, "eos_token_id": []int{2}, "bos_token_id": nil},
	} {
		m, err := Open(copyGolden(t, "mixtral", change))
		if err != nil {
			t.Errorf("%v: %v", change, err)
			continue
		}
		if m.Spec.Layer[0].Mixer.Rope.Theta != 1e6 || len(m.Spec.EOS) != 1 {
			t.Errorf("%v: %+v", change, m.Spec)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGeneration(t *testing.T) {
	tests := []struct {
		json string
		want Generation
		eos  []uint32
		err  string
	}{
		{`{}`, DefaultGeneration(), []uint32{2}, ""},
		{`{"do_sample":true,"temperature":0.7,"top_p":0.8,"top_k":20,"repetition_penalty":1.05,"max_new_tokens":99,"eos_token_id":[5,6]}`,
			Generation{true, 0.7, 0.8, 20, 1.05, 99}, []uint32{5, 6}, ""},
		{`{"temperature":0,"do_sample":true,"eos_token_id":7}`, DefaultGeneration(), []uint32{7}, ""},
		{`{"temperature":-1}`, Generation{}, nil, "temperature = -1"},
		{`{"top_p":1.5}`, Generation{}, nil, "top_p = 1.5"},
		{`{"top_k":-1}`, Generation{}, nil, "top_k = -1"},
		{`{"top_k":"many"}`, Generation{}, nil, "generation_config.json: top_k"},
		{`{"repetition_penalty":0}`, Generation{}, nil, "repetition_penalty"},
		{`{"max_new_tokens":-1}`, Generation{}, nil, "max_new_tokens"},
		{`{"eos_token_id":99999}`, Generation{}, nil, "eos_token_id 99999"},
		{`[]`, Generation{}, nil, "generation_config.json"},
	}
	config, err := os.ReadFile(filepath.Join(goldens.Dir("mixtral"), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		s, g, err := ParseSpec(config, []byte(tt.json))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want an error with %q", tt.json, err, tt.err)
			}
			continue
		}
		if err != nil || g != tt.want || !slices.Equal(s.EOS, tt.eos) {
			t.Errorf("%s: %+v, EOS %v, %v", tt.json, g, s.EOS, err)
		}
	}
}

func TestCleanName(t *testing.T) {
	if got := CleanName("Mixtral 8x7B.v0"); got != "Mixtral_8x7B_v0" {
		t.Error(got)
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, name := range goldens.Names() {
		config, err := os.ReadFile(filepath.Join(goldens.Dir(name), "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(config, []byte(`{"eos_token_id":[1,2],"top_p":0.5}`))
	}
	f.Add([]byte(`{"model_type":"mixtral"}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, config, generation []byte) {
		s, _, err := ParseSpec(config, generation)
		if err != nil {
			return
		}
		if p := s.Parameters(); p.Total <= 0 || p.Active > p.Total {
			t.Errorf("%+v", p)
		}
	})
}
