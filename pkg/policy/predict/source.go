package predict

import "github.com/switchyard/switchyard/kernels/cpu"

// Source makes the inputs of adapters for a layer that is predicted from. Behind
// its gate's inputs stand the weights of the experts that this gate chooses: what
// the layer adds to a row depends on them, and a small network could not tell
// them from the inputs alone.
type Source struct {
	gates Gates
	w     *cpu.Matrix // (E, D)
}

// NewSource is that of a layer with a gate.
func NewSource(g Gates, layer int) *Source {
	return &Source{g, cpu.PackF32(g.Layers[layer], g.Experts, g.Hidden)}
}

// Wide is (R, D+E) of x (R, D). The weights of a row's k experts sum to 1, those of
// others are 0.
func (s *Source) Wide(x []float32, rows int) []float32 {
	d, e := s.gates.Hidden, s.gates.Experts
	scores, wide := make([]float32, rows*e), make([]float32, rows*(d+e))
	cpu.MatMul(scores, e, x, d, rows, s.w, 0, s.w.Panels())
	ids, vals := make([]int32, s.gates.TopK), make([]float32, s.gates.TopK)
	for r := range rows {
		row := wide[r*(d+e) : (r+1)*(d+e)]
		copy(row, x[r*d:(r+1)*d])
		cpu.TopK(ids, vals, scores[r*e:(r+1)*e])
		cpu.Softmax(vals)
		for i, id := range ids {
			row[d+int(id)] = vals[i]
		}
	}
	return wide
}
