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
	topK          int
	rows          int // entries of one launch at most; see rowsOf
	layers        []layer
}

// layer is how its experts are computed.
type layer struct {
	width      int // F
	format     format
	gated      bool
	activation model.Activation
	limit      float32
	onInput    bool // weights scale what goes in
}

// padded is k up to what rows of matrices and planes are filled up to.
func padded(k int) int { return (k + 63) / 64 * 64 }

// A lane takes about one part of laneShare of the memory, between these bounds: with
// leastLane a prompt of 2,048 tokens was computed in six pieces, each of which reads the
// weights of all its experts again.
const (
	laneShare = 64
	leastLane = 64 << 20
	mostLane  = 512 << 20
)

// laneBytes is about what a lane takes of so much memory.
func laneBytes(memory int64) int { return int(min(max(memory/laneShare, leastLane), mostLane)) }

// Rows of one launch: with fewer, many rows read the weights more often.
const (
	leastRows = 64
	mostRows  = 4096
)

// Check refuses a model whose experts no kernel here computes. It reads no weights.
func Check(m *model.Model) error {
	_, err := shapeOf(m, 1, cuda.Mma)
	return err
}

// shapeOf refuses what there are no kernels for.
func shapeOf(m *model.Model, parts int, k cuda.Kernels) (shape, error) {
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
			id := forward.ExpertID{Layer: l, Expert: e}
			x, err := expertOf(m, id, k)
			if err != nil {
				return shape{}, err
			}
			if e == 0 {
				s.layers[l].format = x.in.format
			}
			if err := s.layers[l].takes(id, x); err != nil {
				return shape{}, err
			}
			s.slot = max(s.slot, x.bytes)
		}
	}
	if s.slot == 0 {
		return shape{}, fmt.Errorf("%w: model %s has no routed experts", device.ErrUnknown, m.Name)
	}
	s.topK = m.Spec.TopK
	return s, nil
}

// rowsOf returns how many rows a lane takes on a device with so much memory.
func (s *shape) rowsOf(memory int64) int {
	row := 8*s.hidden + 2*s.parts*(padded(s.hidden)+padded(s.width))
	return min(max(laneBytes(memory)/row, leastRows, s.topK), mostRows)
}

// takes refuses an expert that the layer's kernels do not compute.
func (l *layer) takes(id forward.ExpertID, x place) error {
	for _, w := range []matrix{x.in, x.down} {
		if w.format != l.format || !l.gated && l.format.quantised() {
			return &FormatError{id, w.dtype}
		}
	}
	return nil
}

// FormatError says that experts are in a type that no kernel here takes.
type FormatError struct {
	ID   forward.ExpertID
	Type safetensors.DType
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%v is %v; CUDA devices compute experts of %v, and with a gate of %v or %v, one type in a layer: use --device cpu for this model",
		e.ID, e.Type, safetensors.BF16, safetensors.E4M3, safetensors.F4)
}
