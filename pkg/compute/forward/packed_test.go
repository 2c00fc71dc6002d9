package forward

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// logits are those of the first ids of a golden checkpoint's sequence.
func logits(t *testing.T, m *model.Model, golden string) (all []float32) {
	t.Helper()
	r := newRig(t, m)
	s := r.step(tensor.F32)
	rows := goldenRows(t, r, golden, 24)
	for i := range rows {
		rows[i].Logits = true
	}
	if err := s.Run(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	err := s.Logits(t.Context(), func(_ []int, logits []float32) { all = append(all, logits...) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// FP8 weights compute the bits of the same numbers in float32, and stay packed.
func TestFP8(t *testing.T) {
	for _, name := range []string{"deepseek_v3", "mixtral", "qwen2_moe-mixed"} {
		t.Run(name, func(t *testing.T) {
			packed, plain := modeltest.FP8(t, goldens.Dir(name))
			a, b := modeltest.Open(t, packed), modeltest.Open(t, plain)
			if !same(logits(t, a, name), logits(t, b, name)) {
				t.Error("the logits differ from those of the dequantised weights")
			}
			id := ExpertID{Layer: slices.IndexFunc(a.Spec.Layer, func(l model.LayerSpec) bool { return l.MoE })}
			small, err := loadExpert(t.Context(), a, id)
			if err != nil {
				t.Fatal(err)
			}
			large, _ := ExpertBytes(b, id)
			n, err := ExpertBytes(a, id)
			// A block of few inputs has a scale for each output, too.
			if err != nil || n != small.Bytes() || 3*n > large {
				t.Errorf("%d bytes, %d foreseen; %d as float32; %v", small.Bytes(), n, large, err)
			}
			if len(a.Unused) > 0 || a.Bytes >= b.Bytes {
				t.Errorf("unused %v; %d bytes, %d as float32", a.Unused, a.Bytes, b.Bytes)
			}
		})
	}
}

// What is no number is refused by the name of its tensor.
func TestPackedRefusals(t *testing.T) {
	packed, _ := modeltest.FP8(t, goldens.Dir("mixtral"))
	for _, tt := range []struct {
		name, dir, tensor string
		spoil             func(data []byte)
		want              string
	}{
		{"weight", packed, ".experts.1.w3.weight", func(b []byte) { b[7] = 0xff }, "FP8 weight 7 is not a number (0xff)"},
		{"factor", packed, ".experts.1.w3.weight_scale_inv", func(b []byte) { copy(b, "\x00\x00\x80\x7f") }, "FP8 scale 0 is +Inf"},
		{"exponent", goldens.Dir("gpt_oss-mxfp4"), ".experts.gate_up_proj_scales", func(b []byte) { b[128*2+6] = 255 }, "MXFP4 scale 2 is 255"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, name := spoilt(t, tt.dir, tt.tensor, tt.spoil)
			m := modeltest.Open(t, dir)
			_, err := loadExpert(t.Context(), m, ExpertID{0, 1})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), strings.TrimSuffix(name, "_scale_inv")) {
				t.Errorf("%v, want %q of %s", err, tt.want, name)
			}
			if _, err := loadExpert(t.Context(), m, ExpertID{0, 0}); err != nil {
				t.Errorf("another expert: %v", err)
			}
		})
	}
}

// spoilt copies a checkpoint with one tensor of its first layer changed.
func spoilt(t *testing.T, from, suffix string, spoil func([]byte)) (dir, name string) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			t.Fatal(err)
		}
		if file == "model.safetensors" {
			f, err := safetensors.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			name = f.Names()[slices.IndexFunc(f.Names(), func(n string) bool {
				return strings.Contains(n, ".layers.0.") && strings.HasSuffix(n, suffix)
			})]
			x, _ := f.Tensor(name)
			spoil(x.Data)
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, name
}

// Rotary frequencies can be rounded to compare with a model that was cast.
func TestCastRope(t *testing.T) {
	m := modeltest.Golden(t, "gpt_oss-mxfp4")
	exact := logits(t, m, "gpt_oss-mxfp4")
	m.Spec.CastRope()
	cast := logits(t, m, "gpt_oss-mxfp4")
	if d := farthest(cast, exact); !(d > 1e-4 && d < 0.1) || math.IsNaN(d) {
		t.Errorf("logits differ by %v", d)
	}
}
