package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
)

// What BERT's and GPT-2's configs may say that would change the numbers is refused
// by name.
func TestUpcycledRefusals(t *testing.T) {
	for _, tt := range []struct{ golden, old, new, want string }{
		{"gpt2_moe", `"gelu_new"`, `"relu"`, "activation_function = relu"},
		{"gpt2_moe", `"n_positions": 128`, `"n_positions": 64`, "has shape [128 64]"},
		{"gpt2_moe", `"n_inner": null`, `"n_inner": 128`, "shape"},
		{"gpt2_moe", `"n_head": 4`, `"n_head": 5`, "hidden_size 64 is not a multiple"},
		{"bert_moe", `"absolute"`, `"relative_key"`, "position_embedding_type = relative_key"},
		{"bert_moe", `"gelu"`, `"silu"`, "hidden_act = silu"},
		{"bert_moe", `"vocab_size"`, `"is_decoder": true, "vocab_size"`, "is_decoder = true"},
		{"bert_moe", `"vocab_size"`, `"mask_token_id": 320, "vocab_size"`, "mask_token_id 320"},
		{"bert2bert_moe", `"decoder_start_token_id": 1`, `"decoder_start_token_id": 320`, "decoder_start_token_id 320"},
		{"bert2bert_moe", `"add_cross_attention": true`, `"add_cross_attention": false`, "add_cross_attention = false"},
		{"bert2bert_moe", `"hidden_size": 64`, `"hidden_size": 32`, "encoder: hidden_size = 32 differs from the decoder's 64"},
		{"bert2bert_moe", `"num_experts": 4`, `"num_experts": 8`, "encoder: num_experts = 8 differs"},
		{"bert2bert_moe", `"num_experts": 4`, `"is_causal": true, "num_experts": 4`, "encoder: is_causal = true"},
		{"bert2bert_moe", `"is_decoder": true`, `"is_causal": false, "is_decoder": true`, "decoder: is_causal = false"},
		{"bert2bert_moe", `"model_type": "bert_moe"`, `"model_type": "roberta"`, "encoder: model_type = roberta"},
		{"bert2bert_moe", `"encoder": {`, `"encoder": 7, "old": {`, "encoder: reading JSON"},
		{"bert2bert_moe", `"encoder": {`, `"old": {`, "encoder: reading JSON"},
		{"bert2bert_moe", `"num_hidden_layers": 3`, `"num_hidden_layers": 4`, "is missing"},
	} {
		config, err := os.ReadFile(filepath.Join(goldens.Dir(tt.golden), "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(config), tt.old) {
			t.Fatalf("%s has no %s", tt.golden, tt.old)
		}
		dir := copyGolden(t, tt.golden, nil)
		write(t, dir, "config.json", []byte(strings.Replace(string(config), tt.old, tt.new, 1)))
		m, err := Open(dir)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %s: %v, want an error with %q", tt.golden, tt.new, err, tt.want)
		}
		if err == nil {
			closeAfter(t, m)
		}
	}
}

// An encoder–decoder's layers are numbered in one count, and the ends of its text
// may stand beside its parts.
func TestEncoderDecoder(t *testing.T) {
	m, err := Open(goldens.Dir("bert2bert_moe"))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	s := &m.Spec
	if s.Task() != Answer || s.Layers != 6 || s.EncoderLayers != 3 || s.DecoderStart != 1 || !slices.Equal(s.EOS, []uint32{2}) {
		t.Errorf("%+v", s)
	}
	for ref, want := range map[Ref]string{
		{Role: Q, Layer: 2}:                   "encoder.encoder.layer.2.attention.self.query.weight",
		{Role: CrossK, Layer: 3}:              "decoder.bert.encoder.layer.0.crossattention.self.key.weight",
		{Role: ExpertUp, Layer: 5, Expert: 1}: "decoder.bert.encoder.layer.2.moe.experts.1.intermediate.dense.weight",
		{Role: EncoderEmbed}:                  "encoder.embeddings.word_embeddings.weight",
		{Role: Head}:                          "decoder.bert.embeddings.word_embeddings.weight",
		{Role: HeadBias}:                      "decoder.cls.predictions.bias",
		{Role: PostNormBias, Layer: 0}:        "encoder.encoder.layer.0.output.LayerNorm.bias",
	} {
		if got := m.stored(ref).Name; got != want {
			t.Errorf("%v is %q, want %q", ref, got, want)
		}
	}
}
