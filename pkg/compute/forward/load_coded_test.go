package forward

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/gguf/gguftest"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// small is a Mixtral whose matrices fill blocks of 256 inputs; of the golden one's vocabulary.
const small = `{"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
	"vocab_size": 320, "max_position_embeddings": 512, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 512,
	"bos_token_id": 1, "eos_token_id": 2%s}`

// smallTensors are those of small, by the names of llama.cpp, with the type of each matrix.
func smallTensors(kind func(name string) safetensors.DType) (all []safetensors.Tensor) {
	add := func(name string, shape ...int) {
		t := safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape}
		if len(shape) > 1 && !strings.Contains(name, "gate_inp") {
			t.DType = kind(name)
		}
		if elements, _ := t.DType.Block(); elements > 1 {
			t.Data = gguftest.Draw(t.DType, t.Len(), uint64(len(all)))
		} else {
			t.Data, _ = safetensors.Encode(noise(uint64(len(all)), t.Len()), t.DType)
		}
		all = append(all, t)
	}
	add("token_embd.weight", 320, 256)
	add("output.weight", 320, 256)
	add("output_norm.weight", 256)
	for l := range 2 {
		at := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", l, name) }
		add(at("attn_norm"), 256)
		add(at("ffn_norm"), 256)
		add(at("attn_q"), 256, 256)
		add(at("attn_k"), 128, 256)
		add(at("attn_v"), 128, 256)
		add(at("attn_output"), 256, 256)
		add(at("ffn_gate_inp"), 4, 256)
		add(at("ffn_gate_exps"), 4, 512, 256)
		add(at("ffn_up_exps"), 4, 512, 256)
		add(at("ffn_down_exps"), 4, 256, 512)
	}
	return all
}

// inFloats are the same numbers in float32.
func inFloats(t *testing.T, all []safetensors.Tensor) []safetensors.Tensor {
	t.Helper()
	all = slices.Clone(all)
	for i, x := range all {
		f, err := x.Floats()
		if err != nil {
			t.Fatal(err)
		}
		all[i].DType = safetensors.F32
		all[i].Data, _ = safetensors.Encode(f, safetensors.F32)
	}
	return all
}

// folder is a model of small with one more file.
func folder(t *testing.T, more, name string, data []byte) *model.Model {
	t.Helper()
	dir := t.TempDir()
	for file, b := range map[string][]byte{"config.json": fmt.Appendf(nil, small, more), name: data} {
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return modeltest.Open(t, dir)
}

func inGGUF(t *testing.T, all []safetensors.Tensor) *model.Model {
	t.Helper()
	return folder(t, "", "m.gguf", gguftest.File("llama", all))
}

// mixedTypes are those of a file that is called Q4_K_M.
func mixedTypes(name string) safetensors.DType {
	switch {
	case strings.Contains(name, "attn_v"), strings.Contains(name, "blk.1.ffn_up"), strings.HasPrefix(name, "output"):
		return safetensors.Q6K
	case strings.Contains(name, "blk.1.attn_k"):
		return safetensors.BF16
	}
	return safetensors.Q4K
}

// Weights of GGUF stay codes, which take little more memory than in the file, and compute the bits of the same
// numbers in float32.
func TestCodesOfGGUF(t *testing.T) {
	kinds := map[string]func(string) safetensors.DType{"Q4_K_M": mixedTypes}
	bits := map[string]float64{"Q4_K_M": 6, "Q4_0": 4.5, "Q4_1": 5, "Q4_K": 4.625, "Q5_0": 8.5, "Q5_1": 9, "Q8_0": 8.5, "Q5_K": 8.625, "Q6_K": 8.5625}
	for _, kind := range safetensors.Blocks() {
		kinds[string(kind)] = func(string) safetensors.DType { return kind }
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			all := smallTensors(kind)
			a, b := inGGUF(t, all), inGGUF(t, inFloats(t, all))
			compareCodes(t, a, b, bits[name]/32)
		})
	}
}

// compareCodes compares logits, rows alone, and bytes with those of the same numbers in float32.
func compareCodes(t *testing.T, a, b *model.Model, share float64) {
	t.Helper()
	if got := logits(t, a, "mixtral"); !same(got, logits(t, b, "mixtral")) {
		t.Error("the logits differ from those of the decoded weights")
	}
	for l := range 2 {
		id := ExpertID{l, 3}
		e, err := loadExpert(t.Context(), a, id)
		if err != nil {
			t.Fatal(err)
		}
		n, err := ExpertBytes(a, id)
		if large, _ := ExpertBytes(b, id); err != nil || n != e.Bytes() || float64(n) > share*float64(large) {
			t.Errorf("layer %d: %d bytes, %d foreseen; %d as float32; %v", l, e.Bytes(), n, large, err)
		}
		alone(t, e, model.AsStored)
	}
	w, err := loadWeights(a, threads(t), 64)
	plain, _ := loadWeights(b, threads(t), 64)
	if err != nil || float64(w.Bytes()) > max(share, 0.6)*float64(plain.Bytes()) {
		t.Errorf("the rest takes %d bytes, %d as float32; %v", w.Bytes(), plain.Bytes(), err)
	}
	a.In(model.Q4)
	if n, err := ExpertBytes(a, ExpertID{}); err != nil || n != e4(a) {
		t.Errorf("%d bytes in q4; %v", n, err)
	}
}

// e4 is an expert of small in q4: 4.5 bits a weight.
func e4(m *model.Model) int64 {
	return int64(3*m.Spec.Hidden*m.Spec.Layer[0].Expert.Width) * 9 / 16
}

// A block whose scale is no number is refused by the name of its tensor.
func TestCodesRefused(t *testing.T) {
	for _, tt := range []struct {
		tensor string
		load   func(t *testing.T, m *model.Model) error
	}{
		{"blk.1.ffn_down_exps.weight", func(t *testing.T, m *model.Model) error {
			_, err := loadExpert(t.Context(), m, ExpertID{1, 0})
			return err
		}},
		{"blk.0.attn_v.weight", func(t *testing.T, m *model.Model) error {
			_, err := LoadBackbone(m, threads(t), 64)
			return err
		}},
		{"token_embd.weight", func(t *testing.T, m *model.Model) error {
			_, err := LoadBackbone(m, threads(t), 64)
			return err
		}},
	} {
		all := smallTensors(mixedTypes)
		i := slices.IndexFunc(all, func(x safetensors.Tensor) bool { return x.Name == tt.tensor })
		at := 0
		if all[i].DType == safetensors.Q6K {
			at = 208
		}
		binary.LittleEndian.PutUint16(all[i].Data[at:], 0x7c00)
		err := tt.load(t, inGGUF(t, all))
		if err == nil || !strings.Contains(err.Error(), tt.tensor) || !strings.Contains(err.Error(), "block 0 has a scale that is no finite number") {
			t.Errorf("%s: %v", tt.tensor, err)
		}
	}
}
