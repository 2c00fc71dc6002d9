package cuda

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// gateFormat is how a gate's matrix is held: bf16 as the checkpoint has it, all else as the
// float32 numbers that it stands for.
type gateFormat uint8

const (
	gateBF16 gateFormat = iota
	gateF32
	gateFormats // how many there are
)

func (f gateFormat) String() string { return [gateFormats]string{"bf16", "f32"}[f] }

func (f gateFormat) bytes() int { return [gateFormats]int{2, 4}[f] }

type gateWeights struct {
	spec             *model.RouterSpec
	format           gateFormat
	matrix           cuda.Ptr // (E, Dp)
	bias, correction cuda.Ptr // (E); 0: there is none
}

// groups returns how many of them count: choices before a softmax or a sigmoid have none.
func (w *gateWeights) groups() int {
	if k := w.spec.Kind; k != model.SoftmaxTopK && k != model.SigmoidTopK {
		return 0
	}
	return w.spec.Groups
}

// gatePlaces puts gates' tensors one behind the other, from base on.
type gatePlaces struct {
	m     *model.Model
	base  cuda.Ptr
	bytes int64
	all   []gatePlace // by address
	err   error
}

// gatePlace is where a tensor lies: a matrix of so many columns, or else a vector.
type gatePlace struct {
	ref     model.Ref
	at      int64
	columns int
	format  gateFormat
}

func (p *gatePlaces) gates() []*gateWeights {
	layers := make([]*gateWeights, p.m.Spec.Layers)
	for l := range layers {
		if p.m.Spec.Layer[l].MoE {
			layers[l] = p.gate(l)
		}
	}
	return layers
}

func (p *gatePlaces) gate(l int) *gateWeights {
	w := &gateWeights{spec: &p.m.Spec.Layer[l].Router}
	w.matrix, w.format = p.matrix(model.Ref{Role: model.Router, Layer: l})
	if w.spec.Bias {
		w.bias = p.vector(model.Ref{Role: model.RouterBias, Layer: l})
	}
	if w.spec.Correction {
		w.correction = p.vector(model.Ref{Role: model.RouterCorrection, Layer: l})
	}
	return w
}

func (p *gatePlaces) matrix(ref model.Ref) (cuda.Ptr, gateFormat) {
	t, err := p.m.Stat(ref)
	if err != nil {
		p.err = fmt.Errorf("sizing %v: %w", ref, err)
		return 0, 0
	}
	f := gateF32
	if t.DType == safetensors.BF16 {
		f = gateBF16
	}
	return p.place(gatePlace{ref: ref, columns: t.Shape[1], format: f}, p.m.Spec.Experts*padded(t.Shape[1])*f.bytes()), f
}

func (p *gatePlaces) vector(ref model.Ref) cuda.Ptr {
	return p.place(gatePlace{ref: ref}, 4*p.m.Spec.Experts)
}

func (p *gatePlaces) place(of gatePlace, bytes int) cuda.Ptr {
	of.at = p.bytes
	p.all = append(p.all, of)
	p.bytes = cuda.Aligned(p.bytes + int64(bytes))
	return p.base + cuda.Ptr(of.at)
}

func (p *gatePlaces) copy(ctx context.Context, driver cuda.Driver, h *health) error {
	m := p.m.With(ctx)
	return overWay(ctx, driver, p.bytes, h, nil, func(w *way) {
		w.to = p.base
		for _, of := range p.all {
			w.fillTo(p.base + cuda.Ptr(of.at))
			of.write(w, m)
		}
	})
}

func (of gatePlace) write(w *way, m *model.Model) {
	if of.columns == 0 {
		w.vector(m, vector{refs: []model.Ref{of.ref}})
		return
	}
	var data []byte
	if of.format == gateBF16 {
		data = w.weights(m, of.ref, bf16).Data
	} else {
		data = w.floats(m, of.ref, "reading weights: %w")
	}
	w.rows(data, of.columns*of.format.bytes(), padded(of.columns)*of.format.bytes())
}
