package model

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Precision is how the processor keeps the matrices of a model, and computes with them.
type Precision string

// The precisions. Tensors that are stored in MXFP4 or FP8 stay as they are in each.
const (
	AsStored Precision = "bf16"   // as is the zero value
	Q8       Precision = "q8"     // cpu.Q8
	Q4       Precision = "q4"     // cpu.Q4
	W8A8     Precision = "w8a8"   // cpu.W8A8
	W4A8     Precision = "w4a8"   // cpu.W4A8
	W16A16   Precision = "w16a16" // cpu.W16A16
	A8       Precision = "a8"     // as stored, with cpu.Coding.Rounds for matrices that are codes in the files
)

// Own reports whether its bits are others than those of the stored weights in float32: it is part
// of the numeric class then.
func (p Precision) Own() bool { return p != "" && p != AsStored }

// roundsRows reports whether rows are rounded before matrices are multiplied with them.
func (p Precision) roundsRows() bool { return p == W16A16 || p == W8A8 || p == W4A8 || p == A8 }

// KeepsStored reports whether weights stay as they are stored.
func (p Precision) KeepsStored() bool { return !p.Own() || p == W16A16 || p == A8 }

// CheckPrecision refuses one that would quantise again what the files have in groups, or has no use for it. The files' own is
// refused, too: the same bits would have two numeric classes.
func (m *Model) CheckPrecision() error {
	as, with := Q8, W8A8
	switch m.Spec.Quant {
	case Grouped4:
		as, with = Q4, W4A8
	case Grouped8:
	default:
		return nil
	}
	switch m.Precision {
	case "", AsStored, with:
		return nil
	}
	return fmt.Errorf("model %s is stored in %s: leave --precision out to compute with these codes, or give %s, which rounds rows to 8 bits, too; no other is for it", m.Name, as, with)
}

// In sets the precision: before anything is loaded. Where rows are rounded, keys and values are kept in
// bf16, too, of the layers that can be; KeepIn sets them otherwise.
func (m *Model) In(p Precision) {
	m.Precision = p
	format := kvFormats[KVAuto.of(p)]
	for l := range m.Spec.Layer {
		x := &m.Spec.Layer[l].Mixer
		if x.Cache = cpu.KVF32; x.Kind != MLA && x.keeps(format) == nil { // latents only by choice: classes of before have them in float32
			x.Cache = format
		}
	}
}

// Rounded reports whether a precision is for matrices of this role: those that rows are
// multiplied with, but not what chooses experts. An embedding is one as a tied head.
func (r Role) Rounded() bool {
	switch r {
	case Embed, HeadDense, Head, Q, K, V, O, QDown, QUp, KVDown, CrossQ, CrossK, CrossV, CrossO,
		DenseGate, DenseUp, DenseDown, SharedGate, SharedUp, SharedDown, ExpertGate, ExpertUp, ExpertDown:
		return true
	}
	return false
}
