package hints

import (
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What the device's order is told of steps, where it asks for it.

// learn changes what the order knows.
func (f *Follower) learn(change func(o Outlook)) {
	if f.Outlook != nil {
		f.Device.Reorder(func() { change(f.Outlook) })
	}
}

// begin is for a step that begins.
func (f *Follower) begin(fl *flow) {
	f.learn(func(o Outlook) {
		o.Step()
		o.At(fl.number, -1)
	})
}

// tell says how probable a hint makes experts, those too that are not worth loading, and which
// are loaded ahead.
func (f *Follower) tell(fl *flow, h *pb.Hint, ahead []named) {
	f.learn(func(o Outlook) {
		for _, l := range h.Layers {
			next := l.StepsAhead == 1 && int(l.Layer) <= fl.at // what a layer that is over is to ask next
			if chosen(h, l) || l.StepsAhead > 0 && !next || l.Kind != pb.FunctionKind_FUNCTION_KIND_ROUTED {
				continue
			}
			row := make([]float32, f.Experts)
			for e := range row {
				row[e] = -1
			}
			for i, u := range l.Unit {
				row[u] = l.Probability[i]
			}
			o.Tell(fl.number, int(l.Layer), row)
		}
		for _, n := range ahead {
			if fl.due(n) {
				o.Await(unit.Expert(n.id.Layer, n.id.Expert))
			}
		}
	})
}

// visit is for rows that have come.
func (f *Follower) visit(ids []forward.ExpertID) {
	if len(ids) == 0 {
		return
	}
	f.learn(func(o Outlook) {
		for _, id := range ids {
			o.Visit(unit.Expert(id.Layer, id.Expert))
		}
	})
}
