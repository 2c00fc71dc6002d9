package engine

import (
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// maxFates bounds the bytes of fates in a record of a token; longer ones are omitted.
	maxFates = 256 << 10
	// fatesRoom is what the fates of a step take beside their codes, with rows before them that have none.
	fatesRoom = 64
)

// roomOfFates is how many bytes of a record fates may have where the server takes so many of a message.
func roomOfFates(payload int64) int { return int(min(maxFates, payload/4)) }

// logFates is what became of a sequence's rows since its newest token, for the next one's record.
type logFates struct {
	list     []*pb.Fates
	plain    int // the newest ones, all of whose slots had their own experts
	bytes    int
	degraded wire.FateCounter
}

// add takes in what became of so many rows, which are not counted as done yet, under a threshold. of
// covers only rows that are not logged yet; rows that are computed again for the cache are not in it.
func (l *logFates) add(c *content, rows int, of *pb.Fates, millionths uint32) {
	base := c.logged()
	if c.done <= base {
		*l = logFates{}
	}
	if of == nil {
		l.plain += max(0, c.done+rows-max(base, c.done))
		return
	}
	l.degraded.Add(of, millionths)
	l.flush(of)
	if l.bytes += len(of.Codes) + fatesRoom; l.bytes <= maxFates {
		l.list = append(l.list, of)
		return
	}
	omitted := wire.PlainFates(wire.FatesShapeOf(of))
	omitted.Omitted = true
	l.list = append(l.list[:0], omitted)
}

// holds says whether the fates of so many rows more fit into a room, whatever becomes of them.
func (l *logFates) holds(rows, slots, room int) bool {
	return l.bytes+rows*(slots+3)/4+rows+fatesRoom <= room
}

// flush writes out rows without fates before those that have some.
func (l *logFates) flush(like *pb.Fates) {
	if l.plain > 0 {
		l.list = append(l.list, wire.PlainFates(wire.FatesShape{Rows: l.plain, Layers: int(like.Layers), Slots: int(like.Slots)}))
		l.plain = 0
	}
}

// give returns what the next token's record has, and begins anew. What was degraded it adds to a counter.
func (l *logFates) give(onto *wire.FateCounter) []*pb.Fates {
	onto.Merge(l.degraded)
	out, plain := l.list, l.plain
	if len(out) > 0 && plain > 0 {
		l.flush(out[0])
		out = l.list
	}
	*l = logFates{}
	return out
}
