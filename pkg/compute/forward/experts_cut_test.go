package forward

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// drawnExperts are some of so many hidden values and inner width, in a format.
func drawnExperts(tb testing.TB, n, hidden, width int, f cpu.Format) *loaded {
	tb.Helper()
	activate, err := activationOf(&model.FFNSpec{Width: width, Activation: model.SwiGLU})
	if err != nil {
		tb.Fatal(err)
	}
	l := &loaded{p: threads(tb), experts: map[ExpertID]*Expert{}}
	for i := range n {
		l.experts[ExpertID{Expert: i}] = &Expert{ffn: ffn{
			in: drawnMatrix(tb, uint64(2*i), 2*width, hidden, f), down: drawnMatrix(tb, uint64(2*i+1), hidden, width, f), activate: activate,
		}}
	}
	return l
}

func drawnMatrix(tb testing.TB, seed uint64, n, k int, f cpu.Format) *cpu.Matrix {
	tb.Helper()
	w := noise(seed, n*k)
	if !f.Grouped() {
		raw := make([]byte, 2*n*k)
		if cpu.ToBF16(raw, w); f == cpu.BF16 {
			return cpu.PackBF16(raw, n, k)
		}
		return cpu.Packer{}.Pairs(k, raw)
	}
	m, err := cpu.Packer{}.Quantise(n, k, f, func(i int, row []float32) error { copy(row, w[i*k:]); return nil })
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// entriesOf are so many rows for each of some experts, one after the other.
func entriesOf(experts, rows, hidden int) (in Routed) {
	in.X = noise(99, experts*rows*hidden)
	for i := range experts * rows {
		in.Source, in.Expert, in.Weight = append(in.Source, uint32(i)), append(in.Expert, uint32(i%experts)), append(in.Weight, 0.5)
	}
	return in
}

// Rows have the same bits whether threads share each expert, take parts of its rows, or take whole ones.
func TestExpertsCut(t *testing.T) {
	const hidden, width = 256, 512
	for _, f := range []cpu.Format{cpu.BF16, cpu.W16A16, cpu.W8A8} {
		for _, tc := range []struct {
			experts, rows int
			cut           bool
			items         int
		}{
			{1, 40, false, 0}, {4, 40, false, 0}, {8, 40, true, 8}, {8, 8, true, 8}, {8, 150, true, 24}, {2, 500, false, 0},
		} {
			t.Run(fmt.Sprintf("format=%d/experts=%d/rows=%d", f, tc.experts, tc.rows), func(t *testing.T) {
				l, in := drawnExperts(t, tc.experts, hidden, width, f), entriesOf(tc.experts, tc.rows, hidden)
				var s ExpertScratch
				s.group(in)
				if err := s.borrow(l); err != nil {
					t.Fatal(err)
				}
				if cut := s.cut(2); cut != tc.cut || cut && len(s.items) != tc.items {
					t.Errorf("cut %v into %d items, want %v, %d", cut, len(s.items), tc.cut, tc.items)
				}
				s.giveBack(l)
				out := make([]float32, len(in.X))
				if err := ComputeExperts(l.p, l, in, out, &s); err != nil {
					t.Fatal(err)
				}
				for i := range in.Source {
					one, alone := Routed{X: in.X[i*hidden:][:hidden], Source: []uint32{0}, Expert: in.Expert[i : i+1], Weight: in.Weight[:1]}, make([]float32, hidden)
					if err := ComputeExperts(l.p, l, one, alone, &s); err != nil {
						t.Fatal(err)
					}
					if !same(alone, out[i*hidden:][:hidden]) {
						t.Fatalf("row %d differs alone", i)
					}
				}
			})
		}
	}
}
