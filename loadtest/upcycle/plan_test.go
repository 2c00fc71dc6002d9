package upcycle

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/loadtest/checkpoint"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

var usual = Settings{Experts: 3, TopK: 2, Noise: 0.1, Seed: 7, ShardBytes: 1 << 30}

// planned opens a dense model of testdata and plans it.
func planned(t *testing.T, name string, s Settings) []output {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	kind, _, tied, err := readConfig(data, s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := model.OpenWeights(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	outputs, err := plan(kind, w.Tensors(), tied, s)
	if err != nil {
		t.Fatal(err)
	}
	return outputs
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name        string
		has, hasNot []string
	}{
		{"gpt2",
			[]string{"transformer.wte.weight", "transformer.h.1.mlp.gate.weight", "transformer.h.0.mlp.experts.2.c_proj.bias"},
			[]string{"transformer.h.0.attn.bias", "wte.weight", "transformer.h.0.mlp.c_fc.weight"}},
		{"bert",
			[]string{"bert.embeddings.LayerNorm.weight", "bert.encoder.layer.1.moe.gate.weight", "bert.encoder.layer.0.moe.experts.2.output.dense.bias", "bert.encoder.layer.0.output.LayerNorm.bias", "cls.predictions.bias"},
			[]string{"bert.embeddings.LayerNorm.gamma", "bert.pooler.dense.weight", "cls.seq_relationship.bias", "cls.predictions.decoder.weight", "bert.encoder.layer.0.intermediate.dense.weight"}},
		{"bert2bert",
			[]string{"encoder.encoder.layer.0.moe.gate.weight", "decoder.bert.encoder.layer.1.moe.experts.0.intermediate.dense.weight", "decoder.bert.encoder.layer.1.crossattention.output.dense.weight"},
			[]string{"encoder.pooler.dense.weight", "decoder.bert.encoder.layer.1.output.dense.weight"}},
	} {
		names := map[string]bool{}
		for _, o := range planned(t, tt.name, usual) {
			names[o.Name] = true
		}
		for _, n := range tt.has {
			if !names[n] {
				t.Errorf("%s: no tensor %q", tt.name, n)
			}
		}
		for _, n := range tt.hasNot {
			if names[n] {
				t.Errorf("%s: tensor %q stays", tt.name, n)
			}
		}
	}
}

// data is all bytes of an output.
func (o *output) data(t *testing.T, seed uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := &writer{seed: seed}
	if err := w.tensor(context.Background(), &b, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func find(t *testing.T, outputs []output, name string) *output {
	t.Helper()
	i := slices.IndexFunc(outputs, func(o output) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("no tensor %q", name)
	}
	return &outputs[i]
}

// Noise has the deviation that was asked for, differs between experts and seeds,
// and is the same again.
func TestNoise(t *testing.T) {
	outputs := planned(t, "gpt2", usual)
	zero := find(t, outputs, "transformer.h.0.mlp.experts.0.c_fc.weight")
	one := find(t, outputs, "transformer.h.0.mlp.experts.1.c_fc.weight")
	first := zero.data(t, 7)
	if bytes.Equal(first, one.data(t, 7)) || bytes.Equal(first, zero.data(t, 8)) {
		t.Error("another expert or seed has the same noise")
	}
	if !bytes.Equal(first, zero.data(t, 7)) {
		t.Error("the same seed gives other noise")
	}
	before, after := floats(t, zero, zero.from), floats(t, zero, first)
	var squares float64
	for i := range before {
		squares += math.Pow(float64(after[i]-before[i]), 2)
	}
	spread, err := deviation(safetensors.Tensor{DType: zero.DType, Shape: zero.Shape, Data: zero.from})
	if err != nil {
		t.Fatal(err)
	}
	if got := math.Sqrt(squares/float64(len(before))) / spread; math.Abs(got-usual.Noise) > 0.005 {
		t.Errorf("noise of %v of the tensor's deviation, want %v", got, usual.Noise)
	}
}

func floats(t *testing.T, o *output, data []byte) []float32 {
	t.Helper()
	x, err := safetensors.Tensor{DType: o.DType, Shape: o.Shape, Data: data}.Floats()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestNoNoise(t *testing.T) {
	s := usual
	s.Noise = 0
	outputs := planned(t, "bert", s)
	for e := range 3 {
		o := find(t, outputs, "bert.encoder.layer.0.moe.experts."+string(rune('0'+e))+".output.dense.weight")
		if !bytes.Equal(o.data(t, 7), o.from) {
			t.Errorf("expert %d is no copy", e)
		}
	}
	gate := find(t, outputs, "bert.encoder.layer.0.moe.gate.weight")
	if x := floats(t, gate, gate.data(t, 7)); slices.Max(x) <= 0 || !slices.Equal(gate.Shape, []int{3, 16}) {
		t.Errorf("a gate %v of %v", gate.Shape, x)
	}
}

func TestShards(t *testing.T) {
	outputs := planned(t, "gpt2", usual)
	for _, limit := range []int64{1, 4096, 1 << 30} {
		count := 0
		for _, file := range checkpoint.Shards(outputs, limit, (*output).bytes) {
			size := int64(0)
			for i := range file {
				size += file[i].bytes()
			}
			if count += len(file); len(file) == 0 || size > limit && len(file) > 1 {
				t.Errorf("limit %d: %d tensors of %d bytes in a file", limit, len(file), size)
			}
		}
		if count != len(outputs) {
			t.Errorf("limit %d: %d tensors of %d", limit, count, len(outputs))
		}
	}
}

func TestConfig(t *testing.T) {
	data, err := os.ReadFile("testdata/bert2bert/config.json")
	if err != nil {
		t.Fatal(err)
	}
	_, moe, tied, err := readConfig(data, usual)
	if err != nil || !tied {
		t.Fatalf("tied %v, %v", tied, err)
	}
	var got struct {
		Type    string `json:"model_type"`
		Start   int    `json:"decoder_start_token_id"`
		Decoder struct {
			Type    string `json:"model_type"`
			Experts int    `json:"num_experts"`
			TopK    int    `json:"num_experts_per_tok"`
		}
	}
	if err := json.Unmarshal(moe, &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "bert2bert_moe" || got.Decoder.Type != "bert_moe" || got.Decoder.Experts != 3 || got.Decoder.TopK != 2 || got.Start != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ name, config, want string }{
		{"no JSON", "dense", "reading JSON"},
		{"null", "null", "config.json is no JSON object"},
		{"list", "[]", "config.json is no JSON object"},
		{"empty", "", "config.json is missing or empty"},
		{"another family", `{"model_type":"llama"}`, `"llama" is no dense model`},
		{"no parts", `{"model_type":"encoder-decoder"}`, "config.json: encoder is missing"},
		{"another part", `{"model_type":"encoder-decoder","encoder":{"model_type":"roberta"}}`, `"roberta"`},
	} {
		if _, _, _, err := readConfig([]byte(tt.config), usual); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	for _, s := range []Settings{{}, {Experts: 2, TopK: 3, ShardBytes: 1}, {Experts: 2, TopK: 1, Noise: math.NaN(), ShardBytes: 1}, {Experts: 2, TopK: 1}} {
		if s.Check() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

// Tensors that cannot be what the architecture has are named.
func TestOddTensors(t *testing.T) {
	one := func(name string, shape ...int) safetensors.Tensor {
		n := 4
		for _, d := range shape {
			n *= d
		}
		return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape, Data: make([]byte, n)}
	}
	odd := one("h.0.mlp.c_fc.weight", 1, 1)
	odd.Data = []byte{0, 0, 0x80, 0x7f} // infinite
	quantised := safetensors.Tensor{Name: "h.0.mlp.c_fc.weight", DType: "F8_E4M3", Shape: []int{1, 1}, Data: []byte{0}}
	for _, tt := range []struct {
		want    string
		tensors []safetensors.Tensor
	}{
		{"no tensor is", []safetensors.Tensor{one("wte.weight", 2, 2)}},
		{"twice", []safetensors.Tensor{one("transformer.wte.weight", 2, 2), one("wte.weight", 2, 2)}},
		{"no matrix .c_fc.weight", []safetensors.Tensor{one("h.0.mlp.c_fc.bias", 2)}},
		{"not finite", []safetensors.Tensor{odd}},
		{"F8_E4M3", []safetensors.Tensor{quantised}},
		{"out of range", []safetensors.Tensor{one("h.99999999999999999999.mlp.c_fc.weight", 1, 1)}},
	} {
		if _, err := plan(&gpt2, tt.tensors, true, usual); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
