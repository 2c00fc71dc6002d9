package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

type norm interface {
	// apply is dst (R, D) of x (R, D); dst may be x.
	apply(p workers, dst, x []float32, rows int)
}

// loadNorm reads a norm's weights; the bias of a layer norm has the role after the
// weight's.
func loadNorm(m *model.Model, spec model.NormSpec, weight model.Ref) (norm, error) {
	switch spec.Kind {
	case model.NoNorm:
		return noNorm{}, nil
	case model.RMSNorm:
		w, err := m.Floats(weight)
		return &rmsNorm{w, spec.Eps}, err
	case model.LayerNorm:
		return loadLayerNorm(m, spec, weight)
	}
	return nil, fmt.Errorf("norms of kind %d are not computed", spec.Kind)
}

type noNorm struct{}

func (noNorm) apply(_ workers, dst, x []float32, _ int) {
	if len(x) > 0 && &dst[0] != &x[0] {
		copy(dst, x)
	}
}

// rmsNorm is weight · x / sqrt(mean(x²) + eps).
type rmsNorm struct {
	weight []float32 // (D)
	eps    float32
}

func (n *rmsNorm) apply(p workers, dst, x []float32, rows int) {
	d := len(n.weight)
	eachRow(p, rows, d/2, func(from, to int) {
		for r := from; r < to; r++ {
			cpu.RMSNorm(dst[r*d:(r+1)*d], x[r*d:(r+1)*d], n.weight, n.eps)
		}
	})
}

// layerNorm is weight · (x − mean) / sqrt(variance + eps) + bias.
type layerNorm struct {
	weight, bias []float32 // (D)
	eps          float32
}

func loadLayerNorm(m *model.Model, spec model.NormSpec, weight model.Ref) (_ norm, err error) {
	n := &layerNorm{eps: spec.Eps}
	if n.weight, err = loadFloats(m, weight); err != nil {
		return nil, err
	}
	weight.Role++
	n.bias, err = loadFloats(m, weight)
	return n, err
}

func (n *layerNorm) apply(p workers, dst, x []float32, rows int) {
	d := len(n.weight)
	eachRow(p, rows, d, func(from, to int) {
		for r := from; r < to; r++ {
			cpu.LayerNorm(dst[r*d:(r+1)*d], x[r*d:(r+1)*d], n.weight, n.bias, n.eps)
		}
	})
}
