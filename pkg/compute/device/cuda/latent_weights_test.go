package cuda

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/ref"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// at is what an FP8 matrix on the GPU stands for, here or there.
func at(data []byte, m matrix, row, col int) float64 {
	kp := padded(m.k)
	factor := binary.LittleEndian.Uint32(data[m.n*kp+4*(col/cpu.FP8Block*m.n+row):])
	return ref.FP8(data[row*kp+col]) * float64(math.Float32frombits(factor))
}

// The heads' matrices of an FP8 expansion stand for its numbers, where each head, and each
// block of columns, has scales of its own; and keys' rotated elements stay as they are.
func TestFP8HeadsStandForTheExpansion(t *testing.T) {
	x := &model.MixerSpec{Heads: 2, HeadDim: 320, ValueDim: 128, Latent: model.LatentSpec{KVRank: 160, NopeDim: 256, RopeDim: 64}}
	rows, rank, width := 2*(256+128), 160, 2
	up := model.Packed{}
	for i := range rows * rank {
		up.Data = append(up.Data, byte(i*7%127)) // no code is NaN
	}
	for i := range rows {
		for j := range width {
			up.Factors = append(up.Factors, float32(1+i/cpu.FP8Block*width+j))
		}
	}
	number := func(row, col int) float64 {
		return ref.FP8(up.Data[row*rank+col]) * float64(up.Factors[row*width+col/cpu.FP8Block])
	}
	absorb, expand := absorbShape(x, fp8), matrix{n: x.ValueDim, k: rank, format: fp8}
	keys, values := absorbOf(up, x, absorb), expandOf(up, x, expand)
	for h := range x.Heads {
		head := keys[h*len(keys)/x.Heads:]
		for i := range absorb.n {
			for j := range absorb.k {
				want := 0.0
				if i < rank && j < x.Latent.NopeDim {
					want = number(h*384+j, i)
				} else if i-rank == j-x.Latent.NopeDim && i >= rank {
					want = 1
				}
				if got := at(head, absorb, i, j); got != want {
					t.Fatalf("absorb of head %d has %v at (%d, %d), want %v", h, got, i, j, want)
				}
			}
		}
		head = values[h*len(values)/x.Heads:]
		for i := range expand.n {
			for j := range expand.k {
				if got, want := at(head, expand, i, j), number(h*384+256+i, j); got != want {
					t.Fatalf("expand of head %d has %v at (%d, %d), want %v", h, got, i, j, want)
				}
			}
		}
	}
}

// Of an FP8 expansion the columns of one block have had one factor: DeepSeek-V3's heads begin
// with a block, and small ones lie in one. Others are refused.
func TestUpFormat(t *testing.T) {
	for _, tt := range []struct {
		heads, nope, value int
		dtype              safetensors.DType
		want               format
		err                any
	}{
		{128, 128, 128, safetensors.E4M3, fp8, nil},
		{4, 16, 16, safetensors.E4M3, fp8, nil},
		{2, 256, 128, safetensors.E4M3, fp8, nil},
		{1, 192, 64, safetensors.E4M3, fp8, nil},
		{3, 40, 20, safetensors.E4M3, fp8, new(*FamilyError)},
		{2, 128, 64, safetensors.E4M3, fp8, new(*FamilyError)},
		{2, 128, 64, safetensors.BF16, bf16, nil},
		{128, 128, 128, safetensors.F4, mxfp4, new(*MatrixError)},
		{128, 128, 128, safetensors.F32, 0, new(*MatrixError)},
	} {
		p := placing{m: modeltest.Tiny(t)}
		x := &model.MixerSpec{Heads: tt.heads, ValueDim: tt.value, Latent: model.LatentSpec{NopeDim: tt.nope}}
		got, err := p.upFormat(model.Ref{Role: model.KVUp}, tt.dtype, x)
		if (err == nil) != (tt.err == nil) || err != nil && !errors.As(err, tt.err) || err == nil && got != tt.want {
			t.Errorf("%+v: %v, %v", tt, got, err)
		}
	}
}
