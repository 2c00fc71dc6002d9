package layer

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stepFates gathers what became of the slots of a step's rows, as blocks say it. Usually they
// say nothing, and nothing is kept. The collection's lock guards it.
type stepFates struct {
	layers []int // of the model that have experts
	slots  int

	rows    int
	codes   []wire.FateCode // (rows, layers, slots); none: all had their own experts
	stood   []stood         // of each row
	omitted bool            // they are not whole
}

// stood is which united experts stood in for a row's.
type stood struct {
	way    uint32
	bundle uint64
}

func (f *stepFates) begin(rows int) {
	f.rows, f.codes, f.omitted = rows, f.codes[:0], false
}

func (f *stepFates) check(p *rowsPart, of *pb.Fates) error {
	if err := wire.CheckFatesShape(of, wire.FatesShape{Rows: p.rows, Layers: 1, Slots: f.slots}); err != nil {
		return fmt.Errorf("%w: a block: %w", wire.ErrMalformed, err)
	}
	return nil
}

// take takes in what a block says of a part of a layer's rows; it was checked. Where a layer
// has not all rows of the step, nobody can tell whose they are.
func (f *stepFates) take(layer int, p *rowsPart, rows int, of *pb.Fates) {
	if of == nil {
		return
	}
	at := slices.Index(f.layers, layer)
	codes, err := wire.DecodeFates(of)
	if rows != f.rows || at < 0 || err != nil || of.Omitted {
		f.omitted = true
		return
	}
	if len(f.codes) == 0 {
		f.codes = slices.Grow(f.codes, f.rows*len(f.layers)*f.slots)[:f.rows*len(f.layers)*f.slots]
		clear(f.codes)
		f.stood = reuse.Slice(f.stood, f.rows)
		clear(f.stood)
	}
	for i := range p.rows {
		from := ((p.first+i)*len(f.layers) + at) * f.slots
		copy(f.codes[from:from+f.slots], codes[i*f.slots:(i+1)*f.slots])
		f.stood[p.first+i] = stood{of.Way, of.Bundle}
	}
}

// of is what became of so many rows from the first on; nil: all slots had their own experts. They
// were computed by one stamp: those that replay what became of them before are in the log.
func (f *stepFates) of(first, rows int) *pb.Fates {
	if rows <= 0 {
		return nil
	}
	s := wire.FatesShape{Rows: rows, Layers: len(f.layers), Slots: f.slots}
	if f.omitted {
		out := wire.PlainFates(s)
		out.Omitted = true
		return out
	}
	if len(f.codes) == 0 {
		return nil
	}
	stride := s.Layers * s.Slots
	out := wire.EncodeFates(s, f.codes[first*stride:(first+rows)*stride])
	if out != nil {
		for _, s := range f.stood[first : first+rows] {
			out.Way, out.Bundle = max(out.Way, s.way), max(out.Bundle, s.bundle)
		}
	}
	return out
}
