package forward

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// A token of DeepSeek-V3 takes 576 numbers a layer, where its expanded keys and
// values would take 40,960.
func TestLatentCache(t *testing.T) {
	m := model.MixerSpec{
		Kind: model.MLA, Heads: 128, KVHeads: 128, HeadDim: 192, ValueDim: 128,
		Latent: model.LatentSpec{KVRank: 512, NopeDim: 128, RopeDim: 64},
	}
	expanded := m
	expanded.Kind = model.GroupedQuery
	for _, tt := range []struct {
		mixer model.MixerSpec
		want  int64
	}{{m, 61 * 576 * 4}, {expanded, 61 * 40960 * 4}} {
		s := &model.Spec{}
		for range 61 {
			s.Layer = append(s.Layer, model.LayerSpec{Mixer: tt.mixer})
		}
		shape := kvcache.ShapeOf(s)
		if got := shape.PageBytes() / cpu.PagePositions; got != tt.want {
			t.Errorf("%d bytes a token, want %d", got, tt.want)
		}
	}
}

// The same numbers give the same bits, stored as bf16 or as f32.
func TestLatentDTypes(t *testing.T) {
	for _, name := range []string{"deepseek_v2", "deepseek_v3"} {
		bf16 := modeltest.Golden(t, name)
		f32, err := model.Open(asFloats(t, goldens.Dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f32.Close() })
		var logits [2][]float32
		for i, m := range []*model.Model{bf16, f32} {
			r := newRig(t, m)
			logits[i] = prefill(t, r.step(tensor.F32), r.table(t, 40), ids(40, m.Spec.Vocab), []int{40})
		}
		if !same(logits[0], logits[1]) {
			t.Errorf("%s: f32 differs from bf16", name)
		}
	}
}

// Packed FP8 weights give the bits of the same numbers as floats; where a head's
// rows lie across blocks of scales they are not packed.
func TestLatentFP8(t *testing.T) {
	for _, tt := range []struct {
		heads, nope, v, rank int
		packed               bool
	}{{2, 128, 128, 256, true}, {3, 64, 64, 96, true}, {2, 256, 128, 40, true}, {3, 96, 64, 40, false}} {
		a := &latentAttention{spec: model.MixerSpec{ValueDim: tt.v, Latent: model.LatentSpec{NopeDim: tt.nope}}}
		a.shape = cpu.Latent{Heads: tt.heads, Rank: tt.rank}
		plain := *a
		rows, width := tt.heads*(tt.nope+tt.v), cpu.FP8Scales(tt.rank)
		codes, factors, floats := make([]byte, rows*tt.rank), make([]float32, rows*width), make([]float32, rows*tt.rank)
		for i := range codes {
			codes[i] = byte(i*i%251+i) & 0xf7 // never the code of a NaN
		}
		for i := range factors {
			factors[i] = float32(i/width/cpu.FP8Block+i%width+1) / 7
		}
		for row := range rows {
			cpu.FromFP8(floats[row*tt.rank:(row+1)*tt.rank], codes[row*tt.rank:(row+1)*tt.rank], factors[row*width:(row+1)*width])
		}
		if a.upFP8(codes, factors) != tt.packed {
			t.Errorf("%+v: packed: %v", tt, !tt.packed)
		}
		plain.upFloats(floats)
		for head := range a.absorb {
			if !same(product(a.absorb[head]), product(plain.absorb[head])) || !same(product(a.expand[head]), product(plain.expand[head])) {
				t.Errorf("%+v: head %d differs", tt, head)
			}
		}
	}
}

// product is a matrix times two rows of noise.
func product(m *cpu.Matrix) []float32 {
	out := make([]float32, 2*m.N)
	cpu.MatMul(out, m.N, noise(8, 2*m.K), m.K, 2, m, 0, m.Panels())
	return out
}

// asFloats is a copy of a checkpoint with f32 tensors.
func asFloats(t *testing.T, dir string) string {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []safetensors.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		floats, err := x.Floats()
		if err != nil {
			t.Fatal(err)
		}
		x.DType, x.Data = safetensors.F32, nil
		for _, v := range floats {
			x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(v))
		}
		all = append(all, x)
	}
	to := t.TempDir()
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(to, "config.json"), config)
	var weights bytes.Buffer
	if err := safetensors.Write(&weights, all, nil); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(to, "model.safetensors"), weights.Bytes())
	return to
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
