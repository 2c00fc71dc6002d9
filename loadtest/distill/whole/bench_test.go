package whole

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// BenchmarkStep is four sequences of 180 tokens forth and back through the demo model.
func BenchmarkStep(b *testing.B) {
	m, err := model.Open(filepath.Join("..", "..", "..", "models", "demo"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	n, err := Open(m)
	if err != nil {
		b.Fatal(err)
	}
	d, students := m.Spec.Hidden, make([][]*Student, len(n.layers))
	for i, spec := range m.Spec.Layer {
		for range brownout.Groups(m.Spec.Experts, 4) {
			f := spec.Expert.Width
			students[i] = append(students[i], NewStudent(d, f, make([]float32, 2*f*d), make([]float32, f*d)))
		}
	}
	var all [][]uint32
	for i := range 4 {
		ids := make([]uint32, 180)
		for k := range ids {
			ids[k] = uint32((i*977 + k*k*31) % m.Spec.Vocab)
		}
		all = append(all, ids)
	}
	decide, l := browned(n, students), n.NewLane()
	if err := l.Forward(all, nil); err != nil {
		b.Fatal(err)
	}
	wanted := slices.Clone(l.Hidden())
	for b.Loop() {
		if err := l.Forward(all, decide); err != nil {
			b.Fatal(err)
		}
		l.Backward(wanted)
	}
	b.ReportMetric(float64(l.rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}
