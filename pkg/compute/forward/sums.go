package forward

import (
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Summer is Experts that add up by themselves what they give for a row.
type Summer interface {
	// Sums is SumExperts with the rounding of the wire type that they were made for.
	Sums(in Routed, out []float32, s *ExpertScratch) error
}

// SumExperts fills out (S, D): for each row of in.X what the experts of its entries give,
// each rounded to the wire type, added in order of entries. Entries are in order of rows,
// and each row has some.
func SumExperts(e Experts, in Routed, out []float32, s *ExpertScratch, w tensor.Wire, p *pool.Pool) error {
	if summer, ok := e.(Summer); ok {
		return summer.Sums(in, out, s)
	}
	return SumSlots(e, in, out, s, w, p)
}

// SumSlots is SumExperts by Compute and sums on the processor. p may be nil.
func SumSlots(e Experts, in Routed, out []float32, s *ExpertScratch, w tensor.Wire, p *pool.Pool) error {
	if len(out) == 0 {
		return nil
	}
	rows := int(in.Source[len(in.Source)-1]) + 1
	d := len(out) / rows
	s.slots = reuse.Slice(s.slots, len(in.Expert)*d)
	if err := e.Compute(in, s.slots, s); err != nil {
		return err
	}
	s.first = in.FirstEntries(s.first)
	add := func(from, to int) {
		for r := from; r < to; r++ {
			SumRow(out[r*d:(r+1)*d], s.slots[int(s.first[r])*d:int(s.first[r+1])*d], w)
		}
	}
	if p == nil {
		add(0, rows)
		return nil
	}
	eachRow(workers{Pool: p}, rows, len(in.Expert)/rows*d/2, add)
	return nil
}

// SumRow fills dst (D) with the sum of a row's slots (k, D), in order and each rounded to the
// wire type first, which stays in slots.
func SumRow(dst, slots []float32, w tensor.Wire) {
	w.Round(slots)
	Combine(dst, slots, nil, len(slots)/len(dst), len(dst))
}

// FirstEntries returns the number of each row's first entry, and behind them that of all
// entries. Entries are in order of rows, and each row has some. They are in buf's memory if it suffices.
func (in *Routed) FirstEntries(buf []int32) []int32 {
	buf = buf[:0]
	for i, row := range in.Source {
		if int(row) == len(buf) {
			buf = append(buf, int32(i))
		}
	}
	return append(buf, int32(len(in.Source)))
}
