package cuda

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
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

// made is memory that is computed of a tensor of a format before it is copied.
type made struct {
	at     int64
	ref    model.Ref
	format format
	of     func(model.Packed) []byte
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
	t, err := p.m.Stat(at(model.KVUp))
	if err != nil {
		p.fail(err)
		return w
	}
	f, err := p.upFormat(at(model.KVUp), t.DType, x)
	if err != nil {
		p.fail(err)
		return w
	}
	absorb, expand := absorbShape(x, f), matrix{n: x.ValueDim, k: x.Latent.KVRank, format: f}
	w.absorb = p.heads(x.Heads, absorb, at(model.KVUp), func(up model.Packed) []byte { return absorbOf(up, x, absorb) })
	w.expand = p.heads(x.Heads, expand, at(model.KVUp), func(up model.Packed) []byte { return expandOf(up, x, expand) })
	return w
}

func absorbShape(x *model.MixerSpec, f format) matrix {
	return matrix{n: x.Latent.KVRank + x.Latent.RopeDim, k: x.HeadDim, format: f}
}

// upFormat returns the format of the expansion, whose keys are turned around: not all formats can be.
func (p *placing) upFormat(ref model.Ref, t safetensors.DType, x *model.MixerSpec) (format, error) {
	f, ok := formatOf[t]
	switch {
	case !ok || f == mxfp4:
		return f, &MatrixError{ref, t}
	case f == fp8 && !turnsFP8(x):
		return f, &FamilyError{p.m.Spec.Family, fmt.Sprintf("%v in FP8, where keys of a head are parted by blocks of scales", ref)}
	}
	return f, nil
}

// turnsFP8 reports whether the rows of each head's keys that become columns of one block
// have had one factor.
func turnsFP8(x *model.MixerSpec) bool {
	for h := range x.Heads {
		first := h * (x.Latent.NopeDim + x.ValueDim)
		for i := 0; i < x.Latent.NopeDim; i += cpu.FP8Block {
			last := min(i+cpu.FP8Block, x.Latent.NopeDim) - 1
			if (first+i)/cpu.FP8Block != (first+last)/cpu.FP8Block {
				return false
			}
		}
	}
	return true
}

// heads places a matrix for each head, which are made of one tensor.
func (p *placing) heads(count int, one matrix, ref model.Ref, of func(model.Packed) []byte) weight {
	out := weight{p.table + cuda.Ptr(8*len(p.entries)), one.n, one.k, one.format}
	p.all, p.needed[one.format] = append(p.all, part{made: made{p.bytes, ref, one.format, of}}), true
	for range count {
		p.entries = append(p.entries, uint64(p.base)+uint64(p.bytes), 0)
		p.bytes += cuda.Aligned(one.bytes())
	}
	return out
}

// absorbOf makes the heads' matrices of the expansion (H·(NopeDim+ValueDim), rank): its
// keys' part transposed, and ones for the rotated elements.
func absorbOf(up model.Packed, x *model.MixerSpec, one matrix) []byte {
	nope, rank, kp, e := x.Latent.NopeDim, x.Latent.KVRank, padded(one.k), one.format.bits()/8
	size := int(cuda.Aligned(one.bytes()))
	out := make([]byte, x.Heads*size)
	for h := range x.Heads {
		first, to := h*(nope+x.ValueDim), out[h*size:(h+1)*size]
		from := up.Data[e*first*rank:]
		for i := range nope {
			for j := range rank {
				copy(to[e*(j*kp+i):][:e], from[e*(i*rank+j):])
			}
		}
		for r := range x.Latent.RopeDim {
			copy(to[e*((rank+r)*kp+nope+r):], oneIn[one.format])
		}
		if one.format == fp8 {
			turned := model.Packed{Factors: turnedFactors(up.Factors, x, first)}
			turned.Shape = []int{one.n, one.k}
			putScales(to[one.n*kp:], turned, 0, one.n)
		}
	}
	return out
}

var oneIn = [formats][]byte{bf16: {0x80, 0x3f}, fp8: {0x38}}

// turnedFactors returns those of the absorb (n, k) of the head whose keys' rows begin with first.
func turnedFactors(factors []float32, x *model.MixerSpec, first int) (all []float32) {
	rank, width := x.Latent.KVRank, cpu.FP8Scales(x.Latent.KVRank)
	for j := range rank + x.Latent.RopeDim {
		for i := 0; i < x.HeadDim; i += cpu.FP8Block {
			f := float32(1)
			if j < rank && i < x.Latent.NopeDim {
				f = factors[(first+i)*width+j/cpu.FP8Block]
			}
			all = append(all, f)
		}
	}
	return all
}

func expandOf(up model.Packed, x *model.MixerSpec, one matrix) []byte {
	nope, v, kp, row := x.Latent.NopeDim, x.ValueDim, padded(one.k), int(one.format.rowBytes(one.k))
	size, width := int(cuda.Aligned(one.bytes())), cpu.FP8Scales(one.k)
	out := make([]byte, x.Heads*size)
	for h := range x.Heads {
		first, to := h*(nope+v)+nope, out[h*size:(h+1)*size]
		for j := range v {
			copy(to[j*int(one.format.rowBytes(kp)):], up.Data[(first+j)*row:(first+j+1)*row])
		}
		if one.format == fp8 {
			values := model.Packed{Factors: up.Factors[first*width : (first+v)*width]}
			values.Shape = []int{v, one.k}
			putScales(to[v*kp:], values, 0, v)
		}
	}
	return out
}
