package forward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
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
		e, err := LoadExpert(t.Context(), a, id)
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
			_, err := LoadExpert(t.Context(), m, ExpertID{1, 0})
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

// int4Tensors are small's in GPTQ, or in AWQ, in groups of 64; shuffled has inputs in any order of
// groups.
func int4Tensors(awq, shuffled bool) (all []safetensors.Tensor) {
	const group = 64
	r := rand.New(rand.NewPCG(1, 2))
	add := func(name string, kind safetensors.DType, data []byte, shape ...int) {
		all = append(all, safetensors.Tensor{Name: name, DType: kind, Shape: shape, Data: data})
	}
	words := func(n int) (b []byte) {
		for range n {
			b = binary.LittleEndian.AppendUint32(b, r.Uint32())
		}
		return b
	}
	plain := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data, _ := safetensors.Encode(noise(uint64(len(all)), n), safetensors.BF16)
		add(name, safetensors.BF16, data, shape...)
	}
	matrix := func(base string, n, k int) {
		var scales, order []byte
		for range k / group * n {
			scales = binary.LittleEndian.AppendUint16(scales, gguftest.Half(0.001+0.02*r.Float32()))
		}
		for i := range k {
			g := i / group
			if shuffled {
				g = r.IntN(k / group)
			}
			order = binary.LittleEndian.AppendUint32(order, uint32(g))
		}
		add(base+".scales", safetensors.F16, scales, k/group, n)
		add(base+".qzeros", safetensors.I32, words(k/group*n/8), k/group, n/8)
		if awq {
			add(base+".qweight", safetensors.I32, words(k*n/8), k, n/8)
			return
		}
		add(base+".qweight", safetensors.I32, words(k*n/8), k/8, n)
		add(base+".g_idx", safetensors.I32, order, k)
	}
	plain("model.embed_tokens.weight", 320, 256)
	plain("lm_head.weight", 320, 256)
	plain("model.norm.weight", 256)
	for l := range 2 {
		at := func(name string) string { return fmt.Sprintf("model.layers.%d.%s", l, name) }
		plain(at("input_layernorm.weight"), 256)
		plain(at("post_attention_layernorm.weight"), 256)
		plain(at("block_sparse_moe.gate.weight"), 4, 256)
		matrix(at("self_attn.q_proj"), 256, 256)
		matrix(at("self_attn.k_proj"), 128, 256)
		matrix(at("self_attn.v_proj"), 128, 256)
		matrix(at("self_attn.o_proj"), 256, 256)
		for e := range 4 {
			matrix(at(fmt.Sprintf("block_sparse_moe.experts.%d.w1", e)), 512, 256)
			matrix(at(fmt.Sprintf("block_sparse_moe.experts.%d.w3", e)), 512, 256)
			matrix(at(fmt.Sprintf("block_sparse_moe.experts.%d.w2", e)), 256, 512)
		}
	}
	return all
}

// inInt4 is a model of them, and one of the same numbers in float32.
func inInt4(t *testing.T, all []safetensors.Tensor, config string) (packed, plain *model.Model) {
	t.Helper()
	const name = "model.safetensors"
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	packed = folder(t, `, "quantization_config": {"bits": 4, "group_size": 64, `+config+`}`, name, b.Bytes())
	var decoded []safetensors.Tensor
	for ref, x := range packed.Stored() {
		if base, ok := strings.CutSuffix(x.Name, ".qweight"); ok {
			y, err := packed.Tensor(ref)
			if err != nil {
				t.Fatal(err)
			}
			y.Name = base + ".weight"
			decoded = append(decoded, y)
		}
	}
	for _, x := range all {
		if strings.HasSuffix(x.Name, ".weight") {
			decoded = append(decoded, x)
		}
	}
	b.Reset()
	if err := safetensors.Write(&b, decoded, nil); err != nil {
		t.Fatal(err)
	}
	return packed, folder(t, "", name, b.Bytes())
}

// Matrices in int4 stay codes where inputs are in the order of groups, and compute the bits of the same numbers in float32.
func TestCodesOfInt4(t *testing.T) {
	for name, tt := range map[string]struct {
		config        string
		awq, shuffled bool
		share         float64
	}{
		"gptq":           {`"quant_method": "gptq", "desc_act": false`, false, false, 0.137},
		"gptq 2":         {`"quant_method": "gptq", "desc_act": false, "checkpoint_format": "gptq_v2"`, false, false, 0.137},
		"awq":            {`"quant_method": "awq", "version": "gemm"`, true, false, 0.137},
		"gptq, shuffled": {`"quant_method": "gptq", "desc_act": true`, false, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := inInt4(t, int4Tensors(tt.awq, tt.shuffled), tt.config)
			compareCodes(t, a, b, tt.share)
		})
	}
	a, _ := inInt4(t, int4Tensors(false, true), `"quant_method": "gptq", "desc_act": false`)
	if _, err := LoadExpert(t.Context(), a, ExpertID{}); err == nil || !strings.Contains(err.Error(), "w1.g_idx") || !strings.Contains(err.Error(), "must say desc_act") {
		t.Errorf("in another order: %v", err)
	}
}
