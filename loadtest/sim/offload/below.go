package offload

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Below is the memory that all hosts' experts come from, and the link from the store that has those
// which it does not. Without bytes it has all.
type Below struct {
	Bytes float64
	Link  cost.Link
}

// below is that memory, which keeps what came last, and the link, which moves one load at a time:
// those that rows wait for before others, which they pass at the end of a piece.
type below struct {
	*engine
	m    *residency.Machine
	at   *host   // whose load the link moves; nil: none
	line []*host // whose loads wait for it
}

func newBelow(e *engine) *below {
	return &below{engine: e, m: residency.New(residency.Settings{Budget: int64(e.Below.Bytes)})}
}

func (b *below) hold(u unit.Unit) bool { return b.m.Phase(u) == residency.Held && b.keep(u) }

// keep keeps a unit that has come, if there is room.
func (b *below) keep(u unit.Unit) bool {
	b.m.Want(residency.Want{Unit: u, Bytes: int64(b.w.ExpertBytes), Urgency: residency.Demanded})
	for a, ok := b.m.Next(); ok; a, ok = b.m.Next() {
		switch a.Kind {
		case residency.Load:
			b.m.Loaded(a.Unit)
		case residency.Evict:
			b.m.Evicted(a.Unit)
		case residency.Refuse:
			return false
		case residency.Ready, residency.Resume, residency.Cancel:
		}
	}
	return b.m.Phase(u) == residency.Held
}

func (b *below) release(u unit.Unit) { b.m.Release(u) }

// join has a host's load wait for the link.
func (b *below) join(h *host) {
	b.line = append(b.line, h)
	b.next()
}

// leave is for a host whose load does not move for now.
func (b *below) leave(h *host) {
	b.line = slices.DeleteFunc(b.line, func(one *host) bool { return one == h })
	if b.at == h {
		b.at = nil
		b.next()
	}
}

// next gives the link to the load that is next, if it is free. What another host has brought
// meanwhile need not come again.
func (b *below) next() {
	if b.at == nil && len(b.line) > 0 {
		at := max(0, slices.IndexFunc(b.line, (*host).urgent))
		b.at = b.line[at]
		b.line = slices.Delete(b.line, at, at+1)
		if s := &b.units[b.at.running]; s.moved == 0 && b.m.Phase(b.unit(b.at.running)) == residency.Held {
			s.moved = b.at.target
		}
	}
	if b.at != nil {
		b.at.pace()
	}
}

// urgent reports whether rows wait for the load that a host's link moves.
func (h *host) urgent() bool { return h.running != none && h.units[h.running].demanded }

// presses reports whether a load that rows wait for waits for the link, which moves a host's that none
// wait for.
func (b *below) presses(h *host) bool {
	return b != nil && b.at == h && !h.urgent() && slices.ContainsFunc(b.line, (*host).urgent)
}
