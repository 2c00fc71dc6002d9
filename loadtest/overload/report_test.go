package overload

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
)

// report is what became of a phase's requests.
type report struct {
	length  time.Duration
	begun   time.Time
	sending sync.WaitGroup

	mu     sync.Mutex
	all    []*outcome
	tokens float64 // in answers that were complete in the phase

	memory []float64 // of the pipeline's process, each second, in MiB
}

func newReport(length time.Duration) *report { return &report{length: length, begun: time.Now()} }

func (r *report) note(o *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
	if o.full() && time.Since(r.begun) <= r.length {
		r.tokens += float64(o.tokens)
	}
}

// goodput is how many tokens a second were in answers that were complete in the phase.
func (r *report) goodput() float64 { return r.tokens / r.length.Seconds() }

// answered is the share of some requests that have a full answer.
func (r *report) answered(which func(*outcome) bool) float64 {
	sent, full := 0, 0
	for _, o := range r.all {
		if which(o) {
			sent++
			if o.full() {
				full++
			}
		}
	}
	return float64(full) / float64(max(1, sent))
}

// checkFailures wants all requests to end in their answer, or in overload.
func (r *report) checkFailures(t *testing.T) {
	t.Helper()
	failed := slices.DeleteFunc(slices.Clone(r.all), func(o *outcome) bool { return o.failure == nil })
	if len(failed) > 0 {
		t.Errorf("%d requests failed, other than by overload; the first: %v", len(failed), failed[0].failure)
	}
}

// checkTurns wants requests of who sends less than his share to begin within a fair
// turn: one of those that run ends, and each other tenant has a request go before.
func (r *report) checkTurns(t *testing.T, seconds float64) {
	t.Helper()
	t.Logf("a fair turn comes within %.0f ms", 1000*seconds)
	for _, g := range groups[1:] {
		if wait := r.of(g, waited, 0.99); wait > 1000*seconds {
			t.Errorf("%s waited for %.0f ms at the 99th percentile", g.name, wait)
		}
	}
}

// checkPromises wants a refusal's time to come again to be worth something, if enough
// came for one that was late on a busy machine not to matter.
func (r *report) checkPromises(t *testing.T) {
	t.Helper()
	if _, obeyed, in := r.refusals(); obeyed >= enoughCame && float64(in) < leastKept*float64(obeyed) {
		t.Errorf("%d of %d that came again when they were told to got in", in, obeyed)
	}
}

// checkMemory wants it not to grow.
func (r *report) checkMemory(t *testing.T) {
	t.Helper()
	quarter := len(r.memory) / 4
	early, late := mean(r.memory[quarter:2*quarter]), mean(r.memory[len(r.memory)-quarter:])
	if late > mostGrowth*early {
		t.Errorf("memory grew from %.0f MiB in the second quarter to %.0f MiB in the last one", early, late)
	}
}

func mean(all []float64) (sum float64) {
	for _, v := range all {
		sum += v
	}
	return sum / float64(max(1, len(all)))
}

// groups are whose requests are told apart; the first is who sends most.
var groups = []group{{"the one that sends most", isHot}, {"the nine others", isOther}, {"requests of the whole context", isBig}}

type group struct {
	name string
	has  func(*outcome) bool
}

var everybody = group{"everybody", func(*outcome) bool { return true }}

func waited(o *outcome) time.Duration { return o.waited }
func first(o *outcome) time.Duration  { return o.first }
func tpot(o *outcome) time.Duration   { return o.tpot }
func after(o *outcome) time.Duration  { return o.after }

func (r *report) tpot(p float64) float64 { return r.of(everybody, tpot, p) }

// of is a quantile of what is not zero, in milliseconds.
func (r *report) of(g group, what func(*outcome) time.Duration, p float64) float64 {
	var all []float64
	for _, o := range r.all {
		if d := what(o); d > 0 && g.has(o) {
			all = append(all, float64(d)/float64(time.Millisecond))
		}
	}
	slices.Sort(all)
	return quantile.Of(all, p)
}

func (r *report) String() string {
	var b strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, "  "+format+"\n", args...) }
	say("goodput %.0f tokens/s; time per token p50 %.1f, p99 %.1f ms", r.goodput(), r.tpot(0.5), r.tpot(0.99))
	for _, g := range groups {
		say("%s: %.3f answered; waited p50 %.0f, p99 %.0f ms; first token p50 %.0f, p99 %.0f ms", g.name, r.answered(g.has),
			r.of(g, waited, 0.5), r.of(g, waited, 0.99), r.of(g, first, 0.5), r.of(g, first, 0.99))
	}
	refused, obeyed, in := r.refusals()
	say("%d of %d refused at first, to come again in p50 %.0f, p99 %.0f ms; of %d that did so within a minute, %d got in",
		refused, len(r.all), r.of(everybody, after, 0.5), r.of(everybody, after, 0.99), obeyed, in)
	quarter := len(r.memory) / 4
	say("resident: %.0f MiB in the second quarter, %.0f MiB in the last", mean(r.memory[quarter:2*quarter]), mean(r.memory[len(r.memory)-quarter:]))
	return b.String()
}

// refusals are how many requests were refused, came again at a time that they were
// promised, and were let in then.
func (r *report) refusals() (refused, obeyed, in int) {
	for _, o := range r.all {
		if o.refused {
			refused++
		}
		if o.again && o.after < promisedFor {
			obeyed++
			if !o.overloaded {
				in++
			}
		}
	}
	return refused, obeyed, in
}
