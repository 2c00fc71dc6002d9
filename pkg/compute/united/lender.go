package united

import (
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Experts computes with a model's experts and with united ones beside them: group g has the
// number of routed experts plus g, as brownout.Decision.Redirect makes it.
type Experts struct {
	forward.Lender
	pool   *pool.Pool
	routed int
	held   map[forward.ExpertID]*forward.Expert
}

var _ forward.Experts = (*Experts)(nil)

// NewExperts computes on p with what a lender has.
func NewExperts(from forward.Lender, p *pool.Pool, routed int) *Experts {
	return &Experts{Lender: from, pool: p, routed: routed}
}

// Use loads all united experts of a bundle in place of those that it had; nil is none.
func (e *Experts) Use(b *Bundle) error {
	held := map[forward.ExpertID]*forward.Expert{}
	if b != nil {
		for _, g := range b.Table {
			if g.Rows == 0 {
				continue
			}
			x, err := b.Load(g.Layer, g.Group)
			if err != nil {
				return err
			}
			held[forward.ExpertID{Layer: g.Layer, Expert: e.routed + g.Group}] = x
		}
	}
	e.held = held
	return nil
}

// Borrow returns an expert of either kind; nil if it is not loaded.
func (e *Experts) Borrow(id forward.ExpertID) *forward.Expert {
	if id.Expert >= e.routed {
		return e.held[id]
	}
	return e.Lender.Borrow(id)
}

// GiveBack ends a Borrow.
func (e *Experts) GiveBack(id forward.ExpertID) {
	if id.Expert < e.routed {
		e.Lender.GiveBack(id)
	}
}

// Compute computes at once, on the caller and the pool.
func (e *Experts) Compute(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	return forward.ComputeExperts(e.pool, e, in, out, s)
}
