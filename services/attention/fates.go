package attention

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/request/fates"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stepFates gathers what became of the slots of a step's rows, as blocks say it. Usually they
// say nothing, and nothing is kept. The remote's lock guards it.
type stepFates struct {
	layers []int // of the model that have experts
	slots  int

	rows    int
	codes   []fates.Code // (rows, layers, slots); none: all had their own experts
	way     uint32
	bundle  uint64
	omitted bool // they are not whole
}

func (f *stepFates) begin(rows int) {
	f.rows, f.codes, f.way, f.bundle, f.omitted = rows, f.codes[:0], 0, 0, false
}

// countRows counts the rows of runs.
func countRows(runs []*pb.Run) (n int) {
	for _, r := range runs {
		n += len(r.Tokens)
	}
	return n
}

func (f *stepFates) check(p *rowsPart, of *pb.Fates) error {
	if err := fates.CheckShape(of, fates.Shape{Rows: p.rows, Layers: 1, Slots: f.slots}); err != nil {
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
	codes, err := fates.Decode(of)
	if rows != f.rows || at < 0 || err != nil || of.Omitted {
		f.omitted = true
		return
	}
	if len(f.codes) == 0 {
		f.codes = slices.Grow(f.codes, f.rows*len(f.layers)*f.slots)[:f.rows*len(f.layers)*f.slots]
		clear(f.codes)
	}
	f.way, f.bundle = max(f.way, of.Way), max(f.bundle, of.Bundle)
	for i := range p.rows {
		from := ((p.first+i)*len(f.layers) + at) * f.slots
		copy(f.codes[from:from+f.slots], codes[i*f.slots:(i+1)*f.slots])
	}
}

// of is what became of so many rows from the first on; nil: all slots had their own experts.
func (f *stepFates) of(first, rows int) *pb.Fates {
	s := fates.Shape{Rows: rows, Layers: len(f.layers), Slots: f.slots}
	if f.omitted {
		out := fates.Plain(s)
		out.Omitted = true
		return out
	}
	if len(f.codes) == 0 {
		return nil
	}
	stride := s.Layers * s.Slots
	out := fates.Encode(s, f.codes[first*stride:(first+rows)*stride])
	if out != nil {
		out.Way, out.Bundle = f.way, f.bundle
	}
	return out
}

// tellRows gives the parts of a microbatch what became of their rows, and what they cost.
func (r *remote) tellRows(mb *microbatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := 0
	for i := range mb.parts {
		p := &mb.parts[i]
		p.fates, p.cost = r.fates.of(first, p.rows), r.costs.of(first, p.rows)
		first += p.rows
	}
}

// maxFates bounds the bytes of fates in a record of a token; longer ones are omitted.
const maxFates = 256 << 10

// logFates is what became of a sequence's rows since its newest token, for the next one's record.
type logFates struct {
	list  []*pb.Fates
	plain int // the newest ones, all of whose slots had their own experts
	bytes int
}

// add takes in the rows of a part, which are not counted as done yet. Those that were computed
// for tokens before, and are again for the cache alone, are in the records of these.
func (l *logFates) add(s *sequence, p *part) {
	base := 0
	if n := s.generated(); n > 0 && !s.fills() {
		base = len(s.ids) - 1
	}
	if s.done <= base {
		*l = logFates{}
	}
	of := rest(p.fates, base-s.done)
	if of == nil {
		l.plain += max(0, s.done+p.rows-max(base, s.done))
		return
	}
	l.flush(of)
	if l.bytes += len(of.Codes); l.bytes <= maxFates {
		l.list = append(l.list, of)
		return
	}
	omitted := fates.Plain(fates.ShapeOf(of))
	omitted.Omitted = true
	l.list = append(l.list[:0], omitted)
}

// rest is fates without those of the first rows; nil: all slots of the others had their own experts.
func rest(of *pb.Fates, first int) *pb.Fates {
	if of == nil || first <= 0 {
		return of
	}
	s := fates.ShapeOf(of)
	if s.Rows -= first; s.Rows <= 0 {
		return nil
	}
	out := fates.Plain(s)
	if out.Omitted = of.Omitted; !of.Omitted {
		codes, _ := fates.Decode(of) // made here
		out = fates.Encode(s, codes[first*s.Layers*s.Slots:])
	}
	if out != nil {
		out.Way, out.Bundle = of.Way, of.Bundle
	}
	return out
}

// flush writes out rows without fates before those that have some.
func (l *logFates) flush(like *pb.Fates) {
	if l.plain > 0 {
		l.list = append(l.list, fates.Plain(fates.Shape{Rows: l.plain, Layers: int(like.Layers), Slots: int(like.Slots)}))
		l.plain = 0
	}
}

// give returns what the next token's record has, and begins anew.
func (l *logFates) give() []*pb.Fates {
	out, plain := l.list, l.plain
	if len(out) > 0 && plain > 0 {
		l.flush(out[0])
		out = l.list
	}
	*l = logFates{}
	return out
}
