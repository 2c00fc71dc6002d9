package direct

import (
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Rows have the same bits on any number of threads: prompts, single rows that attend to much, and batches.
func TestThreads(t *testing.T) {
	for _, precision := range []model.Precision{model.AsStored, model.W8A8} {
		var want []float32
		for _, threads := range []int{1, 2, 5, 16} {
			got := logitsOn(t, threads, precision)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d threads, in %q: other logits than on one", threads, precision)
			}
		}
	}
}

// logitsOn are the logits of some steps of several sequences.
func logitsOn(t *testing.T, threads int, precision model.Precision) (all []float32) {
	t.Helper()
	m, err := model.Open(demo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	m.In(precision)
	p := pool.New(threads)
	defer p.Close()
	r, err := New(m, p, Settings{Wire: tensor.BF16, MaxPositions: 512, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var seqs []*Sequence
	for i, n := range []int{300, 1, 40, 7} {
		ids := make([]uint32, n)
		for j := range ids {
			ids[j] = uint32(100 + (i*31+j*13)%8000)
		}
		s, err := r.Add(ids, 4, greedy)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		seqs = append(seqs, s)
	}
	for _, some := range [][]*Sequence{seqs[:1], seqs, seqs[:1], seqs[1:3]} {
		for _, s := range some {
			s.IDs = append(s.IDs, uint32(200+len(s.IDs)))
		}
		if err := r.Rows(t.Context(), some, func(row int, logits []float32) {
			if row%9 == 0 {
				all = append(all, logits...)
			}
		}); err != nil {
			t.Fatal(fmt.Errorf("%d threads: %w", threads, err))
		}
	}
	return all
}
