package model

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
)

// Own reports whether its bits are others than those of the stored weights in float32: it is part
// of the numeric class then.
func (p Precision) Own() bool { return p != "" && p != AsStored }

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
