package engine

import (
	"github.com/switchyard/switchyard/pkg/transport/fates"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxFates bounds the bytes of fates in a record of a token; longer ones are omitted.
const maxFates = 256 << 10

// logFates is what became of a sequence's rows since its newest token, for the next one's record.
type logFates struct {
	list     []*pb.Fates
	plain    int // the newest ones, all of whose slots had their own experts
	bytes    int
	degraded fates.Counter
}

// add takes in what became of so many rows, which are not counted as done yet, under a threshold. Those
// that were computed for tokens before, and are again for the cache alone, are in the records of these.
func (l *logFates) add(c *content, rows int, of *pb.Fates, millionths uint32) {
	base := 0
	if n := c.generated(); n > 0 && !c.fills() {
		base = len(c.ids) - 1
	}
	if c.done <= base {
		*l = logFates{}
	}
	of = rest(of, base-c.done)
	if of == nil {
		l.plain += max(0, c.done+rows-max(base, c.done))
		return
	}
	l.degraded.Add(of, millionths)
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

// give returns what the next token's record has, and begins anew. What was degraded it adds to a counter.
func (l *logFates) give(onto *fates.Counter) []*pb.Fates {
	onto.Merge(l.degraded)
	out, plain := l.list, l.plain
	if len(out) > 0 && plain > 0 {
		l.flush(out[0])
		out = l.list
	}
	*l = logFates{}
	return out
}
