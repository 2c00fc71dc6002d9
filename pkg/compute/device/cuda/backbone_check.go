package cuda

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// FamilyError says that a model has what is not computed on GPUs.
type FamilyError struct{ Family, Has string }

func (e *FamilyError) Error() string {
	return fmt.Sprintf("attention of %s is not on the GPU yet (%s): use --device cpu for attention", e.Family, e.Has)
}

// MatrixError says that a matrix is of a type that no kernel here takes.
type MatrixError struct {
	Ref  model.Ref
	Type safetensors.DType
}

func (e *MatrixError) Error() string {
	return fmt.Sprintf("%v is %v; attention on the GPU takes %v, %v and %v, one type in a matrix, and without a gate %v only: use --device cpu for attention",
		e.Ref, e.Type, safetensors.BF16, safetensors.E4M3, safetensors.F4, safetensors.BF16)
}

// mostGrid is how many blocks a launch has at most in its second and third dimension. Attention
// has a row in one of them.
const mostGrid = 1<<16 - 1

// RowsError says that a step has more rows than a launch of attention.
type RowsError struct{ Rows int }

func (e *RowsError) Error() string {
	return fmt.Sprintf("--max-rows is %d; attention on the GPU takes at most %d", e.Rows, mostGrid)
}

func checkRows(rows int) error {
	if rows > mostGrid {
		return &RowsError{rows}
	}
	return nil
}

// mostHead is the widest head that attention's kernels take.
const mostHead = 256

// CheckBackbone refuses a model whose backbone no kernels here compute. It reads no weights.
func CheckBackbone(m *model.Model) error {
	s := &m.Spec
	refuse := func(has string) error { return &FamilyError{s.Family, has} }
	if a := s.Head.DenseActivation; s.Head.Dense && a.Gated() {
		return refuse(fmt.Sprintf("its head has activation %d", a))
	}
	for l := range s.Layer {
		if has := unknown(&s.Layer[l]); has != "" {
			return refuse(fmt.Sprintf("layer %d: %s", l, has))
		}
	}
	p := placing{m: m}
	p.backbone()
	return p.err
}

// unknown returns what of a layer there are no kernels for; empty: nothing.
func unknown(l *model.LayerSpec) string {
	m := &l.Mixer
	switch {
	case l.Norm.Kind == model.NoNorm:
		return "no norm"
	case m.Kind == model.MLA && (m.Bidirectional || l.Cross):
		return "latents of an encoder, or beside what an encoder has read"
	case m.Kind == model.MLA && m.Latent.KVRank > mostRank:
		return fmt.Sprintf("latents of %d, more than %d", m.Latent.KVRank, mostRank)
	case m.Kind == model.MLA && m.Most() > 0:
		return "latents of a window"
	case m.Kind == model.MLA:
	case m.HeadDim != m.ValueDim:
		return "values of another width than keys"
	case m.HeadDim > mostHead:
		return fmt.Sprintf("heads of %d, more than %d", m.HeadDim, mostHead)
	case l.Cross && m.Most() > 0:
		return "a window on what an encoder has read"
	}
	return ""
}

func turnsOf(s *model.Spec) (all []model.RopeSpec) {
	for l := range s.Layer {
		if r := s.Layer[l].Mixer.Rope; r.Kind != model.NoRope && turnOf(all, &r) < 0 {
			all = append(all, r)
		}
	}
	return all
}

// turnOf returns where a rotary embedding is among them; -1: nowhere.
func turnOf(all []model.RopeSpec, r *model.RopeSpec) int {
	return slices.IndexFunc(all, func(o model.RopeSpec) bool { return o.Equal(r) })
}

func temperaturesOf(s *model.Spec) (all []model.TemperatureSpec) {
	for l := range s.Layer {
		if t := s.Layer[l].Mixer.Temperature; t.Floor > 0 && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}
