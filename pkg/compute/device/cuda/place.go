package cuda

import (
	"fmt"
	"iter"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// place is where an expert's parts lie in its slot, in this order: the gate's rows
// before the up's, in matrix and bias.
type place struct {
	in, down         matrix
	inBias, downBias vector // at 0: there is none
	bytes            int64
}

// matrix is tensors one below the other, and all their scales behind them.
type matrix struct {
	refs   []model.Ref
	at     int64
	n, k   int // of all tensors
	dtype  safetensors.DType
	format format
}

// vector is tensors one behind the other, as float32.
type vector struct {
	refs []model.Ref
	at   int64
}

// rows returns how many it has with those that are filled up.
func (m matrix) rows() int {
	if m.format == tiled {
		return len(m.refs) * padded(m.n/len(m.refs))
	}
	return m.n
}

func (m matrix) bytes() int64 {
	return int64(m.rows())*m.format.rowBytes(padded(m.k)) + m.format.scaleBytes(m.n, m.k)
}

// expertOf reads no weights.
func expertOf(m *model.Model, id forward.ExpertID, k cuda.Kernels) (p place, err error) {
	if id.Layer < 0 || id.Layer >= len(m.Spec.Layer) || !m.Spec.Layer[id.Layer].MoE {
		return place{}, fmt.Errorf("layer %d of model %s has no experts", id.Layer, m.Name)
	}
	spec, roles := m.Spec.Layer[id.Layer].Expert, model.ExpertRoles
	in, inBias := []model.Role{roles.Up}, []model.Role{roles.UpBias}
	if spec.Activation.Gated() {
		in, inBias = []model.Role{roles.Gate, roles.Up}, []model.Role{roles.GateBias, roles.UpBias}
	}
	if p.in, err = p.addMatrix(m, id, k, in...); err != nil {
		return place{}, err
	}
	if p.down, err = p.addMatrix(m, id, k, roles.Down); err != nil || !spec.Bias {
		return p, err
	}
	if p.inBias, err = p.addVector(m, id, inBias...); err != nil {
		return place{}, err
	}
	p.downBias, err = p.addVector(m, id, roles.DownBias)
	return p, err
}

func expertMatrices(s *model.Spec) iter.Seq[model.Ref] {
	return func(yield func(model.Ref) bool) {
		for ref := range s.Refs() {
			if r := model.ExpertRoles; (ref.Role == r.Gate || ref.Role == r.Up || ref.Role == r.Down) && !yield(ref) {
				return
			}
		}
	}
}

// addMatrix places tensors of one type, and what follows on an address of its own.
func (p *place) addMatrix(m *model.Model, id forward.ExpertID, k cuda.Kernels, roles ...model.Role) (w matrix, err error) {
	w.at = p.bytes
	for i, role := range roles {
		ref := model.Ref{Role: role, Layer: id.Layer, Expert: id.Expert}
		t, err := m.Stat(ref)
		if err != nil {
			return matrix{}, fmt.Errorf("sizing %v: %w", id, err)
		}
		f, ok := formatFor(t.DType, k)
		if !ok || i > 0 && t.DType != w.dtype {
			return matrix{}, &FormatError{id, t.DType}
		}
		w.refs, w.n, w.k, w.dtype, w.format = append(w.refs, ref), w.n+t.Shape[0], t.Shape[1], t.DType, f
	}
	p.bytes = cuda.Aligned(p.bytes + w.bytes())
	return w, nil
}

func (p *place) addVector(m *model.Model, id forward.ExpertID, roles ...model.Role) (v vector, err error) {
	v.at = p.bytes
	for _, role := range roles {
		ref := model.Ref{Role: role, Layer: id.Layer, Expert: id.Expert}
		t, err := m.Stat(ref)
		if err != nil {
			return vector{}, fmt.Errorf("sizing %v: %w", id, err)
		}
		v.refs = append(v.refs, ref)
		p.bytes += 4 * int64(t.Shape[0])
	}
	p.bytes = cuda.Aligned(p.bytes)
	return v, nil
}
