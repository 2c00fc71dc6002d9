package model

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

func TestGPTOSS(t *testing.T) {
	for name, quant := range map[string]Dequant{"gpt_oss": Plain, "gpt_oss-mxfp4": MXFP4} {
		t.Run(name, func(t *testing.T) {
			m := openGolden(t, name)
			var windows []int
			for l := range m.Spec.Layer {
				windows = append(windows, m.Spec.Layer[l].Mixer.Window)
			}
			if !slices.Equal(windows, []int{16, 0, 16, 0}) || m.Spec.Quant != quant {
				t.Errorf("windows %v, quantised %d", windows, m.Spec.Quant)
			}
			f, err := safetensors.Open(filepath.Join(goldens.Dir(name), singleFile))
			if err != nil {
				t.Fatal(err)
			}
			closeAfter(t, f)
			tensors := f.Size() - int64(8+len(f.Header())) // 8 bytes tell the header's length
			if p := m.Spec.Parameters(); p.Total != 492912 || m.Bytes != tensors || len(m.Unused) > 0 {
				t.Errorf("%d parameters in %d bytes of %d, unused %v", p.Total, m.Bytes, tensors, m.Unused)
			}
			for ref := range m.Spec.Refs() {
				if x, err := m.Floats(ref); err != nil || len(x) != product(m.Spec.Shape(ref)) {
					t.Fatalf("%v: %d numbers, %v", ref, len(x), err)
				}
			}
		})
	}
}

func product(shape []int) int { return Tensor{Shape: shape}.Len() }

// What stands in the config in another way is read, and what is wrong is named.
func TestGPTOSSConfig(t *testing.T) {
	open := func(change map[string]any) (*Model, error) { return Open(copyGolden(t, "gpt_oss", change)) }
	m, err := open(map[string]any{"layer_types": nil, "sliding_window": 8})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	if w := m.Spec.Layer[2].Mixer.Window; w != 8 || m.Spec.Layer[1].Mixer.Window != 0 {
		t.Errorf("window %d", w)
	}
	for want, change := range map[string]map[string]any{
		"layer_types names 1 layers of 4":    {"layer_types": []string{"full_attention"}},
		"layer_types":                        {"layer_types": []string{"a", "b", "c", "d"}},
		"head_dim is missing":                {"head_dim": nil},
		"quant_method is \"hqq\"":            {"quantization_config": map[string]any{"quant_method": "hqq"}},
		"weight_block_size []":               {"quantization_config": map[string]any{"quant_method": "fp8"}},
		"[64 64]; supported is e4m3":         {"quantization_config": map[string]any{"quant_method": "fp8", "weight_block_size": []int{64, 64}}},
		"bits is not supported":              {"quantization_config": map[string]any{"quant_method": "mxfp4", "bits": 4}},
		`gate_up_proj_blocks" is missing`:    {"quantization_config": map[string]any{"quant_method": "mxfp4"}},
		"num_experts_per_tok 9 is more than": {"num_experts_per_tok": 9},
	} {
		if _, err := open(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
