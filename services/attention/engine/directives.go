package engine

import (
	"time"

	"github.com/switchyard/switchyard/services/attention/layer"
)

// Directives say what gates are to obey, and hear what steps take. They return at once.
type Directives interface {
	// Now is for a step that begins now; prefill is one with rows of prompts.
	Now(prefill bool) Directive
	// Step hears of a step that is done, and Wait of the requests that there are.
	Step(s Stepped)
	Wait(w Waiting)
}

// Stepped is what a step took.
type Stepped struct {
	Prefill bool // it had rows of prompts
	Rows    int
	Took    time.Duration
	// Curve is what it would have accessed at thresholds from 0 to 1, evenly apart; nil: gates have
	// not told. Millionths is the threshold of its phase.
	Curve      []uint32
	Millionths uint32
}

// Waiting is what requests wait for.
type Waiting struct {
	Longest time.Duration // that one has waited for its first token
	Busy    bool          // there are requests
	// Coming is how many rows more steps will have than the newest one without a prompt: requests without a
	// token yet, by worker, less those in that step that have ended.
	Coming int
}

// Directive is what a step obeys.
type Directive struct {
	// Order is nil where each slot has its own expert.
	Order *layer.Order
	// Share is the most of a request's routed rows that may be degraded; RowSlots is how many of
	// those one row has.
	Share    float64
	RowSlots int
}

// obey has a microbatch that is about to step obey what holds now.
func (d *scheduler) obey(mb *microbatch) {
	if d.directives == nil {
		return
	}
	if mb.prompts == 0 {
		d.decoded = d.decoded[:0]
		for i := range mb.parts {
			d.decoded = append(d.decoded, mb.parts[i].s)
		}
	}
	now := d.directives.Now(mb.prompts > 0)
	if mb.order = now.Order; mb.order == nil {
		return
	}
	for i := range mb.parts {
		p := &mb.parts[i]
		p.own, p.threshold = p.s.seq.OwnExperts || p.s.above(now), threshold(p, mb.order)
	}
}

// above reports whether more of a sequence was degraded than may be, of what it has computed.
func (s *Sequence) above(of Directive) bool {
	if of.Share >= 1 {
		return false
	}
	return float64(s.degraded.Rows+s.fates.degraded.Rows) > of.Share*float64(s.done*of.RowSlots)
}

// threshold is the lowest that an order has for one of a part's rows.
func threshold(p *part, o *layer.Order) uint32 {
	first, prompt := p.s.done, p.s.prompt()
	switch {
	case first >= prompt:
		return o.Stamp.DecodeMillionths
	case first+p.rows <= prompt:
		return o.Stamp.PrefillMillionths
	}
	return min(o.Stamp.PrefillMillionths, o.Stamp.DecodeMillionths)
}

// tellWait tells what producers' requests wait for.
func (d *scheduler) tellWait() {
	if d.directives == nil {
		return
	}
	var w Waiting
	now := d.now()
	for _, s := range d.own.order {
		if s.ended || s.flow.IsCanary() {
			continue
		}
		w.Busy = true
		if s.generated() > 0 {
			continue
		}
		w.Coming++
		if !s.accepted.IsZero() {
			w.Longest = max(w.Longest, now.Sub(s.accepted))
		}
	}
	workers := max(1, len(d.crew.idle)+len(d.crew.busy))
	w.Coming = (w.Coming + workers - 1) / workers
	for _, s := range d.decoded {
		if s.ended && w.Coming > 0 {
			w.Coming--
		}
	}
	d.directives.Wait(w)
}

// stepped is what is told of a microbatch that went through the layers.
func (mb *microbatch) stepped() Stepped {
	s := Stepped{Prefill: mb.prompts > 0, Rows: mb.rows, Took: mb.layers + mb.heads, Curve: mb.curve}
	if mb.order == nil {
		return s
	}
	s.Millionths = mb.order.Stamp.DecodeMillionths
	if mb.prompts > 0 {
		s.Millionths = mb.order.Stamp.PrefillMillionths
	}
	return s
}
