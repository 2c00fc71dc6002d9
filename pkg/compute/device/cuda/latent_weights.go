package cuda

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// latentWeights are those of multi-head latent attention on the GPU, as package forward
// explains it. Of absorb and expand each head has an entry, one after the other.
type latentWeights struct {
	q         weight   // (H·C, D), or (QRank, D) where up follows
	queryNorm cuda.Ptr // of QRank
	up        weight   // (H·C, QRank); n 0: there is none
	line      weight   // (W, D)
	lineNorm  cuda.Ptr // of the rank
	// absorb (W, C) makes of a query what its score with a line needs: times the head's
	// key expansion, and its rotated part as it is.
	absorb weight
	expand weight // (ValueDim, rank)
}

// made is memory that is computed of a tensor before it is copied.
type made struct {
	at, bytes int64
	ref       model.Ref
	of        func(data []byte) []byte
}

// latent places a layer's weights but for the output's.
func (p *placing) latent(l int, x *model.MixerSpec) *latentWeights {
	at := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: l} }
	w, first := &latentWeights{}, at(model.Q)
	if x.Latent.QRank > 0 {
		first = at(model.QDown)
		w.queryNorm, w.up = p.vector(at(model.QDownNorm)), p.matrix(nil, at(model.QUp))
	}
	w.q, w.line, w.lineNorm = p.matrix(nil, first), p.matrix(nil, at(model.KVDown)), p.vector(at(model.KVDownNorm))
	if t, err := p.m.Stat(at(model.KVUp)); err != nil || t.DType != safetensors.BF16 {
		if err == nil {
			err = &MatrixError{at(model.KVUp), t.DType}
		}
		p.fail(err)
		return w
	}
	width := x.Latent.KVRank + x.Latent.RopeDim
	w.absorb = p.heads(x.Heads, width, x.HeadDim, at(model.KVUp), func(data []byte) []byte { return absorbOf(data, x) })
	w.expand = p.heads(x.Heads, x.ValueDim, x.Latent.KVRank, at(model.KVUp), func(data []byte) []byte { return expandOf(data, x) })
	return w
}

// heads places a matrix (n, k) for each head.
func (p *placing) heads(count, n, k int, ref model.Ref, of func([]byte) []byte) weight {
	one := 2 * int64(n) * int64(padded(k))
	part := part{made: made{p.bytes, one * int64(count), ref, of}}
	out := weight{p.table + cuda.Ptr(8*len(p.entries)), n, k, bf16}
	for h := range int64(count) {
		p.entries = append(p.entries, uint64(p.base)+uint64(p.bytes+h*one), 0)
	}
	p.bytes = cuda.Aligned(p.bytes + part.made.bytes)
	p.all, p.needed[bf16] = append(p.all, part), true
	return out
}

// write computes and copies what was placed.
func (of *made) write(ctx context.Context, w *way, m *model.Model) error {
	t, err := m.Tensor(of.ref)
	if err != nil {
		return fmt.Errorf("reading weights: %w", err)
	}
	if i := notFinite(t.Data); i >= 0 {
		return &NumberError{of.ref, i}
	}
	return w.write(ctx, of.of(t.Data))
}

// absorbOf makes the heads' matrices of the expansion (H·(NopeDim+ValueDim), rank): its
// keys' part transposed, and ones for the rotated elements.
func absorbOf(data []byte, x *model.MixerSpec) []byte {
	const one = 0x3f80
	nope, rank, kp := x.Latent.NopeDim, x.Latent.KVRank, padded(x.HeadDim)
	width := rank + x.Latent.RopeDim
	out := make([]byte, 2*x.Heads*width*kp)
	for h := range x.Heads {
		from, to := data[2*h*(nope+x.ValueDim)*rank:], out[2*h*width*kp:]
		for i := range nope {
			for j := range rank {
				copy(to[2*(j*kp+i):][:2], from[2*(i*rank+j):])
			}
		}
		for r := range x.Latent.RopeDim {
			binary.LittleEndian.PutUint16(to[2*((rank+r)*kp+nope+r):], one)
		}
	}
	return out
}

// expandOf is its values' part.
func expandOf(data []byte, x *model.MixerSpec) []byte {
	nope, rank, kp := x.Latent.NopeDim, x.Latent.KVRank, padded(x.Latent.KVRank)
	out := make([]byte, 2*x.Heads*x.ValueDim*kp)
	for h := range x.Heads {
		for j := range x.ValueDim {
			row := (h*(nope+x.ValueDim) + nope + j) * rank
			copy(out[2*(h*x.ValueDim+j)*kp:], data[2*row:2*(row+rank)])
		}
	}
	return out
}
