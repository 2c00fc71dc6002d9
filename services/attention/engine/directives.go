package engine

import (
	"time"

	"github.com/switchyard/switchyard/services/attention/layer"
)

// Directives say what gates are to obey, and hear what steps take. They return at once.
type Directives interface {
	// Now is for a step that begins now.
	Now() Directive
	// Step hears what a step took; prefill is one with rows of prompts.
	Step(prefill bool, took time.Duration)
	// Wait hears how long requests have waited for their first token at most, and whether there
	// are any requests.
	Wait(longest time.Duration, busy bool)
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
	now := d.directives.Now()
	if mb.order = now.Order; mb.order == nil {
		return
	}
	for i := range mb.parts {
		p := &mb.parts[i]
		p.own, p.threshold = p.s.seq.OwnExperts || p.s.above(now), threshold(p, mb.order)
	}
}

// above says whether more of a sequence was degraded than may be, of what it has computed.
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

// tellWait tells how long producers' requests have waited for their first token.
func (d *scheduler) tellWait() {
	if d.directives == nil {
		return
	}
	longest, busy, now := time.Duration(0), false, d.now()
	for _, s := range d.own.order {
		if s.ended || s.flow.IsCanary() {
			continue
		}
		busy = true
		if s.generated() == 0 && !s.accepted.IsZero() {
			longest = max(longest, now.Sub(s.accepted))
		}
	}
	d.directives.Wait(longest, busy)
}
