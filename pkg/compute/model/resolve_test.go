package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// numbered is a bf16 tensor whose elements count from 0, modulo 256.
func numbered(name string, shape ...int) Tensor {
	t := Tensor{Name: name, DType: safetensors.BF16, Shape: shape}
	for i := range t.Len() {
		t.Data = binary.LittleEndian.AppendUint16(t.Data, uint16(math.Float32bits(float32(i%256))>>16))
	}
	return t
}

func holding(all ...Tensor) lookUp {
	return func(name string) (Tensor, bool) {
		i := slices.IndexFunc(all, func(t Tensor) bool { return t.Name == name })
		if i < 0 {
			return Tensor{}, false
		}
		return all[i], true
	}
}

// Every layout gives the elements that its description says.
func TestResolve(t *testing.T) {
	const experts = 3
	rapid.Check(t, func(t *rapid.T) {
		at := TensorRef{Name: "w", Stacked: rapid.Bool().Draw(t, "stacked"), Transposed: rapid.Bool().Draw(t, "transposed")}
		at.Part.Count = rapid.IntRange(0, 3).Draw(t, "count")
		at.Part.Index = rapid.IntRange(0, max(0, at.Part.Count-1)).Draw(t, "index")
		at.Part.Interleaved = rapid.Bool().Draw(t, "interleaved")
		n, k := rapid.IntRange(1, 150).Draw(t, "n"), rapid.IntRange(1, 150).Draw(t, "k")
		r := Ref{Role: ExpertUp, Expert: rapid.IntRange(0, experts-1).Draw(t, "expert")}
		stored := numbered("w", at.shapes([]int{n, k}, experts)[0]...)
		found, err := resolve(at, r, []int{n, k}, experts, holding(stored))
		if err != nil {
			t.Fatal(err)
		}
		got, err := found.tensor().Floats()
		if err != nil {
			t.Fatal(err)
		}
		outputs := n * max(1, at.Part.Count)
		for i, v := range got {
			out, in := i/k, i%k
			if at.Part.Interleaved && at.Part.Count > 0 {
				out = out*at.Part.Count + at.Part.Index
			} else {
				out += at.Part.Index * n
			}
			place := out*k + in
			if at.Transposed {
				place = in*outputs + out
			}
			if at.Stacked {
				place += r.Expert * outputs * k
			}
			if want := float32(place % 256); v != want {
				t.Fatalf("%+v: element %d of (%d, %d) is %v, want %v", at, i, n, k, v, want)
			}
		}
		if d := found.describe(); !slices.Equal(d.Shape, []int{n, k}) || d.Data != nil || found.bytes() != int64(2*n*k) {
			t.Fatalf("%+v of %d bytes", d, found.bytes())
		}
	})
}

// Vectors are parts of rows.
func TestResolveVector(t *testing.T) {
	at := TensorRef{Name: "b", Stacked: true, Part: Part{1, 2, true}}
	r, err := resolve(at, Ref{Role: ExpertUpBias, Expert: 1}, []int{3}, 2, holding(numbered("b", 2, 6)))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := r.tensor().Floats(); !slices.Equal(got, []float32{7, 9, 11}) {
		t.Error(got)
	}
}

// mxModel has one expert matrix of each part in MXFP4: rows 2i gate, 2i+1 up.
func mxStored(rows, k, experts int) []Tensor {
	blocks := Tensor{Name: "w_blocks", DType: safetensors.U8, Shape: []int{experts, rows, k / 32, 16}}
	scales := Tensor{Name: "w_scales", DType: safetensors.U8, Shape: []int{experts, rows, k / 32}}
	for i := range blocks.Len() {
		blocks.Data = append(blocks.Data, byte(i*7+i/16))
	}
	for i := range scales.Len() {
		scales.Data = append(scales.Data, byte(120+i%9))
	}
	return []Tensor{blocks, scales}
}

func TestResolveMXFP4(t *testing.T) {
	const rows, k, experts = 10, 64, 3
	stored := mxStored(rows, k, experts)
	all := ref.MXFP4(stored[0].Data, stored[1].Data)
	at := TensorRef{Name: "w", Stacked: true, Dequant: MXFP4, Part: Part{1, 2, true}}
	r, err := resolve(at, Ref{Role: ExpertUp, Expert: 2}, []int{rows / 2, k}, experts, holding(stored...))
	if err != nil {
		t.Fatal(err)
	}
	p := Packed{Tensor: r.tensor(), Exponents: r.gather(r.scales.Data)}
	if p.DType != safetensors.F4 || len(p.Data) != rows/2*k/2 || r.bytes() != rows/2*k/2+rows/2*k/32 {
		t.Errorf("%s of %d bytes, %d with scales", p.DType, len(p.Data), r.bytes())
	}
	for i, v := range floatsOf(p) {
		if want := all[(2*rows+i/k*2+1)*k+i%k]; v != want {
			t.Fatalf("element %d is %v, want %v", i, v, want)
		}
	}
}

func TestResolveFP8(t *testing.T) {
	const n, k = 130, 300
	codes := Tensor{Name: "w", DType: safetensors.E4M3, Shape: []int{n, k}}
	for i := range codes.Len() {
		codes.Data = append(codes.Data, byte(i%127))
	}
	grid := numbered("w_scale_inv", 2, 3)
	factors, _ := grid.Floats()
	want := ref.FP8Weights(codes.Data, factors, n, k)
	r, err := resolve(TensorRef{Name: "w", Dequant: FP8Blocks}, Ref{Role: Q}, []int{n, k}, 1, holding(codes, grid))
	if err != nil {
		t.Fatal(err)
	}
	p := Packed{Tensor: r.tensor()}
	if p.Factors, err = r.factors(); err != nil || !slices.Equal(floatsOf(p), want) {
		t.Errorf("differs from the dequantised weights; %v", err)
	}
	if r.bytes() != n*k+2*6 {
		t.Errorf("%d bytes", r.bytes())
	}
}

func TestResolveRefusals(t *testing.T) {
	mx, fp8 := TensorRef{Name: "w", Stacked: true, Dequant: MXFP4}, TensorRef{Name: "w", Dequant: FP8Blocks}
	good := mxStored(4, 64, 2)
	change := func(i int, f func(*Tensor)) []Tensor {
		all := slices.Clone(good)
		f(&all[i])
		return all
	}
	for name, c := range map[string]struct {
		at   TensorRef
		want []int
		in   []Tensor
		says string
	}{
		"missing":      {TensorRef{Name: "w"}, []int{2, 3}, nil, `"w" is missing`},
		"shape":        {TensorRef{Name: "w", Transposed: true}, []int{2, 3}, []Tensor{numbered("w", 2, 3)}, "shape [2 3], config.json makes it [3 2]"},
		"experts":      {TensorRef{Name: "w", Stacked: true}, []int{2, 3}, []Tensor{numbered("w", 3, 2, 3)}, "makes it [2 2 3]"},
		"no experts":   {TensorRef{Name: "w", Stacked: true}, []int{2, 3}, []Tensor{numbered("w", 0, 2, 3)}, "makes it [2 2 3]"},
		"flat":         {TensorRef{Name: "w", Part: Part{0, 2, false}}, []int{2, 3}, []Tensor{numbered("w", 12)}, "makes it [4 3]"},
		"no scales":    {mx, []int{4, 64}, good[:1], `"w_scales" is missing`},
		"odd scales":   {mx, []int{4, 64}, change(1, func(t *Tensor) { t.Shape = []int{2, 4, 3} }), `"w_scales" has shape [2 4 3]`},
		"odd blocks":   {mx, []int{4, 64}, change(0, func(t *Tensor) { t.Shape = []int{2, 4, 4, 8} }), `"w_blocks" has shape`},
		"block type":   {mx, []int{4, 64}, change(0, func(t *Tensor) { t.DType = "I8" }), `"w_blocks" is I8`},
		"no blocks":    {mx, []int{4, 40}, good, "blocks of 32"},
		"vector":       {mx, []int{64}, good, "cannot be MXFP4"},
		"fp8 part":     {TensorRef{Name: "w", Dequant: FP8Blocks, Part: Part{0, 2, false}}, []int{2, 3}, nil, "parts in FP8"},
		"fp8 grid":     {fp8, []int{2, 300}, []Tensor{{Name: "w", DType: safetensors.E4M3, Shape: []int{2, 300}}, numbered("w_scale_inv", 1, 2)}, "makes it [1 3]"},
		"fp8 integers": {fp8, []int{2, 3}, []Tensor{{Name: "w", DType: safetensors.U8, Shape: []int{2, 3}}, numbered("w_scale_inv", 1, 1)}, `"w" is U8`},
	} {
		_, err := resolve(c.at, Ref{Role: ExpertUp}, c.want, 2, holding(c.in...))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkGather takes an expert's gate out of Llama-4's fused layout.
func BenchmarkGather(b *testing.B) {
	const d, f = 1024, 1024
	stored := Tensor{Name: "w", DType: safetensors.BF16, Shape: []int{2, d, 2 * f}, Data: make([]byte, 2*2*d*2*f)}
	for _, interleaved := range []bool{false, true} {
		b.Run(fmt.Sprintf("interleaved=%t", interleaved), func(b *testing.B) {
			at := TensorRef{Name: "w", Stacked: true, Transposed: true, Part: Part{0, 2, interleaved}}
			r, err := resolve(at, Ref{Role: ExpertGate, Expert: 1}, []int{f, d}, 2, holding(stored))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(2 * d * f)
			for b.Loop() {
				r.tensor()
			}
		})
	}
}

func floatsOf(p Packed) []float32 {
	out := make([]float32, p.Len())
	p.floatsTo(out)
	return out
}
