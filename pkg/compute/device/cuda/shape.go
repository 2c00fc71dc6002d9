package cuda

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// shape is the sizes of a model's experts, and of what a lane has for them.
type shape struct {
	hidden, width int   // D; the largest F
	parts         int   // P
	slot          int64 // the bytes of the largest expert
	rows          int   // entries of one launch at most
	layers        []layer
}

// layer is how its experts are computed.
type layer struct {
	width      int // F
	gated      bool
	activation model.Activation
	limit      float32
	onInput    bool // weights scale what goes in
}

// padded is k up to what rows of matrices and planes are filled up to.
func padded(k int) int { return (k + 63) / 64 * 64 }

// laneBytes is about what a lane takes of the device.
const laneBytes = 64 << 20

// Rows of one launch: with fewer, many rows read the weights more often.
const (
	leastRows = 64
	mostRows  = 4096
)

// Check refuses a model whose experts no kernel here computes. It reads no weights.
func Check(m *model.Model) error {
	_, err := shapeOf(m, 1)
	return err
}

// shapeOf refuses what there are no kernels for.
func shapeOf(m *model.Model, parts int) (shape, error) {
	s := shape{hidden: m.Spec.Hidden, parts: parts, layers: make([]layer, m.Spec.Layers)}
	for l := range m.Spec.Layer {
		spec := &m.Spec.Layer[l]
		if !spec.MoE {
			continue
		}
		f := spec.Expert
		s.layers[l] = layer{width: f.Width, gated: f.Activation.Gated(), activation: f.Activation, limit: f.Limit, onInput: spec.Router.OnInput}
		s.width = max(s.width, f.Width)
		for e := range m.Spec.Experts {
			x, err := expertOf(m, forward.ExpertID{Layer: l, Expert: e})
			if err != nil {
				return shape{}, err
			}
			s.slot = max(s.slot, x.bytes)
		}
	}
	if s.slot == 0 {
		return shape{}, fmt.Errorf("%w: model %s has no routed experts", device.ErrUnknown, m.Name)
	}
	row := 8*s.hidden + 2*s.parts*(padded(s.hidden)+padded(s.width))
	s.rows = min(max(laneBytes/row, leastRows), mostRows)
	return s, nil
}

// part is one tensor of an expert, in its place of a slot.
type part struct {
	ref  model.Ref
	at   int64
	n, k int // k is 0 for a bias
}

// bytes is what a part takes of a slot.
func (p part) bytes() int64 {
	if p.k == 0 {
		return 4 * int64(p.n)
	}
	return 2 * int64(p.n) * int64(padded(p.k))
}

// place is where an expert's parts lie in its slot: the gate's rows before the
// up's, in matrix and bias.
type place struct {
	parts                  []part // by address
	down, inBias, downBias int64  // 0: no bias
	bytes                  int64
}

// FormatError says that experts are in a type that no kernel here takes.
type FormatError struct {
	ID   forward.ExpertID
	Type safetensors.DType
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%v is %v; CUDA devices compute experts of bf16 only: use --device cpu for this model", e.ID, e.Type)
}

// expertOf reads no weights.
func expertOf(m *model.Model, id forward.ExpertID) (p place, err error) {
	if id.Layer < 0 || id.Layer >= len(m.Spec.Layer) || !m.Spec.Layer[id.Layer].MoE {
		return place{}, fmt.Errorf("layer %d of model %s has no experts", id.Layer, m.Name)
	}
	spec, roles := m.Spec.Layer[id.Layer].Expert, model.ExpertRoles
	in, inBias := []model.Role{roles.Up}, []model.Role{roles.UpBias}
	if spec.Activation.Gated() {
		in, inBias = []model.Role{roles.Gate, roles.Up}, []model.Role{roles.GateBias, roles.UpBias}
	}
	if err := p.add(m, id, in...); err != nil {
		return place{}, err
	}
	p.down = p.bytes
	if err := p.add(m, id, roles.Down); err != nil {
		return place{}, err
	}
	if spec.Bias {
		p.inBias = p.bytes
		if err := p.add(m, id, inBias...); err != nil {
			return place{}, err
		}
		p.downBias = p.bytes
		err = p.add(m, id, roles.DownBias)
	}
	return p, err
}

// add places tensors one behind the other, and what follows on an address of its own.
func (p *place) add(m *model.Model, id forward.ExpertID, roles ...model.Role) error {
	for _, role := range roles {
		ref := model.Ref{Role: role, Layer: id.Layer, Expert: id.Expert}
		t, err := m.Stat(ref)
		if err != nil {
			return fmt.Errorf("sizing %v: %w", id, err)
		}
		at := part{ref: ref, at: p.bytes, n: t.Shape[0]}
		if len(t.Shape) > 1 {
			at.k = t.Shape[1]
			if t.DType != safetensors.BF16 {
				return &FormatError{id, t.DType}
			}
		}
		p.parts = append(p.parts, at)
		p.bytes += at.bytes()
	}
	p.bytes = cuda.Aligned(p.bytes)
	return nil
}
