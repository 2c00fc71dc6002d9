package forward

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// loadUp cuts the expansion (H·(NopeDim+ValueDim), KVRank) into its heads' matrices;
// those of keys are transposed.
func (a *latentAttention) loadUp(m *model.Model, ref model.Ref) error {
	t, err := m.Stat(ref)
	if err != nil {
		return fmt.Errorf("loading weights: %w", err)
	}
	switch t.DType {
	case safetensors.BF16:
		if t, err = m.Tensor(ref); err == nil {
			a.upBF16(t.Data)
		}
		return err
	case safetensors.E4M3:
		if p, err := m.Packed(ref); err != nil || a.upFP8(p.Data, p.Factors) {
			return err
		}
	}
	all, err := loadFloats(m, ref)
	a.upFloats(all)
	return err
}

func (a *latentAttention) upBF16(data []byte) {
	nope, v, rank := a.spec.Latent.NopeDim, a.spec.ValueDim, a.shape.Rank
	for head := range slices.Chunk(data, 2*(nope+v)*rank) {
		a.absorb = append(a.absorb, cpu.PackBF16Columns(head[:2*nope*rank], rank, nope))
		a.expand = append(a.expand, cpu.PackBF16(head[2*nope*rank:], v, rank))
	}
}

func (a *latentAttention) upFloats(all []float32) {
	nope, v, rank := a.spec.Latent.NopeDim, a.spec.ValueDim, a.shape.Rank
	for head := range slices.Chunk(all, (nope+v)*rank) {
		a.absorb = append(a.absorb, cpu.PackColumns(head[:nope*rank], rank, nope))
		a.expand = append(a.expand, cpu.PackF32(head[nope*rank:], v, rank))
	}
}

// upFP8 keeps the weights packed. It reports false, and does nothing, where
// blocks of scales do not fit the transposed matrices.
func (a *latentAttention) upFP8(codes []byte, factors []float32) bool {
	nope, v, rank := a.spec.Latent.NopeDim, a.spec.ValueDim, a.shape.Rank
	width := cpu.FP8Scales(rank)
	var absorb, expand []*cpu.Matrix
	for head := range a.shape.Heads {
		at := head * (nope + v)
		columns, scales, ok := transposeFP8(codes[at*rank:(at+nope)*rank], factors[at*width:(at+nope)*width], nope, rank)
		if !ok {
			return false
		}
		absorb = append(absorb, cpu.PackFP8(columns, scales, rank, nope))
		at += nope
		expand = append(expand, cpu.PackFP8(codes[at*rank:(at+v)*rank], factors[at*width:(at+v)*width], v, rank))
	}
	a.absorb, a.expand = absorb, expand
	return true
}

// transposeFP8 returns the transpose (k, n) of codes (n, k) with scales by row (n, k/128).
// It reports false where rows that would share a scale have different ones.
func transposeFP8(codes []byte, factors []float32, n, k int) (columns []byte, scales []float32, ok bool) {
	columns = make([]byte, len(codes))
	for i, c := range codes {
		columns[i%k*n+i/k] = c
	}
	width, blocks := cpu.FP8Scales(k), cpu.FP8Scales(n)
	scales = make([]float32, k*blocks)
	for col := range k {
		for row := range n {
			f := factors[row*width+col/cpu.FP8Block]
			s := &scales[col*blocks+row/cpu.FP8Block]
			if row%cpu.FP8Block != 0 && *s != f {
				return nil, nil, false
			}
			*s = f
		}
	}
	return columns, scales, true
}
