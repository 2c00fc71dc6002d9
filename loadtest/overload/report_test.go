package overload

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is what became of a phase's requests.
type report struct {
	length  time.Duration
	begun   time.Time
	sending sync.WaitGroup

	mu   sync.Mutex
	all  []*outcome
	late float64 // tokens of answers that were complete after the phase
}

func newReport(length time.Duration) *report { return &report{length: length, begun: time.Now()} }

func (r *report) note(o *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
	if time.Since(r.begun) > r.length {
		r.late += float64(o.tokens)
	}
}

// goodput is how many tokens a second were in answers that were complete in the phase.
func (r *report) goodput() float64 {
	tokens := -r.late
	for _, o := range r.all {
		tokens += float64(o.tokens)
	}
	return tokens / r.length.Seconds()
}

// answered is the share of some requests that have a full answer.
func (r *report) answered(which func(*outcome) bool) float64 {
	sent, full := 0, 0
	for _, o := range r.all {
		if which(o) {
			sent++
			if o.failure == nil && !o.overloaded {
				full++
			}
		}
	}
	return float64(full) / float64(max(1, sent))
}

func (r *report) failed() (n int) {
	for _, o := range r.all {
		if o.failure != nil {
			n++
		}
	}
	return n
}

func (r *report) tpot(p float64) float64 {
	return quantile(r, p, func(o *outcome) time.Duration { return o.tpot })
}

// quantile of what is not zero, in milliseconds.
func quantile(r *report, p float64, of func(*outcome) time.Duration) float64 {
	var all []time.Duration
	for _, o := range r.all {
		if d := of(o); d > 0 {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[int(p*float64(len(all)-1))]) / float64(time.Millisecond)
}

func (r *report) String() string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "  goodput %.0f tokens/s; time per token p50 %.1f, p99 %.1f ms\n", r.goodput(), r.tpot(0.5), r.tpot(0.99))
	for _, g := range []struct {
		name  string
		which func(*outcome) bool
	}{{"the one that sends most", isHot}, {"the nine others", isOther}, {"requests of the whole context", isBig}} {
		first := func(o *outcome) time.Duration {
			if g.which(o) {
				return o.first
			}
			return 0
		}
		_, _ = fmt.Fprintf(&b, "  %s: %.3f answered; first token p50 %.0f, p99 %.0f ms\n", g.name, r.answered(g.which), quantile(r, 0.5, first), quantile(r, 0.99, first))
	}
	refused, obeyed, in := 0, 0, 0
	for _, o := range r.all {
		if o.refused {
			refused++
		}
		if o.again {
			obeyed++
			if !o.overloaded {
				in++
			}
		}
	}
	after := func(o *outcome) time.Duration { return o.after }
	_, _ = fmt.Fprintf(&b, "  %d of %d refused at first, to come again in p50 %.0f, p99 %.0f ms; of %d that did, %d got in",
		refused, len(r.all), quantile(r, 0.5, after), quantile(r, 0.99, after), obeyed, in)
	return b.String()
}
