package forward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

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
			scales = binary.LittleEndian.AppendUint16(scales, safetensors.FloatToHalf(0.001+0.02*r.Float32()))
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
	if _, err := loadExpert(t.Context(), a, ExpertID{}); err == nil || !strings.Contains(err.Error(), "w1.g_idx") || !strings.Contains(err.Error(), "must say desc_act") {
		t.Errorf("in another order: %v", err)
	}
}
