package requests

import (
	"errors"
	"slices"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
)

// Result is what a policy took, and what requests had of it.
type Result struct {
	*sim.Result
	Requests int
	// Unfinished had not ended when the run did. What they wait for counts as it stood then:
	// less than it would have been.
	Unfinished int
	// Behind is for how long, at the last arrival, the request had waited that waits longest
	// for its first token.
	Behind float64
	// TTFT and TPOT are of requests, in seconds; TPOT of those with two tokens or more.
	TTFT, TPOT Spread
	// Goodput are the requests a second that keep the SLO, Good their share; Strict and Lax
	// are the share for half of its times, and for twice of them.
	Goodput, Good, Strict, Lax float64
	// Prefill and Decode are the mean seconds of a layer in batches with and without rows of
	// prompts, and of what a layer takes beside its experts.
	Prefill, Decode float64
	// Average and Peak are the gigabytes of experts in memory.
	Average, Peak float64
}

// Spread sums numbers up.
type Spread struct{ Mean, P50, P99 float64 }

// Run serves requests under a policy. They are in the order of their times, which count
// from the run's begin; before are those that came earlier, for policies that decide by the
// past before they start.
func Run(rs, before []trace.Request, t *Tape, set Settings, s sim.Settings, p sim.Policy) (*Result, error) {
	if err := set.Check(); err != nil {
		return nil, err
	}
	if t.Shape != s.Model.Shape {
		return nil, errors.New("the tape is of another shape than the model; write it for this one")
	}
	y := newSource(set, t, rs, before)
	if len(y.requests) == 0 {
		return nil, errors.New("no request arrives; take a longer slice of the trace")
	}
	r, err := sim.Feed(y, s, p)
	if err != nil {
		return nil, err
	}
	return y.result(r), nil
}

func (y *source) result(of *sim.Result) *Result {
	r := &Result{Result: of, Requests: len(y.requests), Behind: y.behind}
	var ttft, tpot []float64
	var good [3]int
	for i := range y.requests {
		q := &y.requests[i]
		if !q.ended() {
			r.Unfinished++
		}
		first, each := q.waits(y.ended)
		ttft = append(ttft, first)
		if q.answer > 1 && q.first > 0 {
			tpot = append(tpot, each)
		}
		for k, factor := range []float64{1, 0.5, 2} {
			if q.ended() && first <= factor*y.SLO.TTFT.Seconds() && each <= factor*y.SLO.TPOT.Seconds() {
				good[k]++
			}
		}
	}
	n := float64(len(y.requests))
	r.TTFT, r.TPOT = spread(ttft), spread(tpot)
	r.Good, r.Strict, r.Lax = float64(good[0])/n, float64(good[1])/n, float64(good[2])/n
	r.Goodput = float64(good[0]) / max(of.Elapsed, 1e-9)
	layers := float64(y.tape.Layers)
	r.Prefill, r.Decode = y.phases.prefill/layers/float64(max(1, y.phases.prefills)), y.phases.decode/layers/float64(max(1, y.phases.decodes))
	r.Average, r.Peak = of.Resident/max(of.Elapsed, 1e-9), of.Peak
	return r
}

// waits are the seconds to the first token and of each further one; where they are not
// there at the end, those until then.
func (r *request) waits(end float64) (first, each float64) {
	if r.first == 0 {
		return max(0, end-r.arrived), 0
	}
	last, tokens := r.last, r.done-r.prompt
	if !r.ended() {
		last, tokens = end, tokens+1
	}
	return r.first - r.arrived, (last - r.first) / float64(max(1, tokens))
}

func spread(ns []float64) (s Spread) {
	if len(ns) == 0 {
		return s
	}
	slices.Sort(ns)
	for _, n := range ns {
		s.Mean += n / float64(len(ns))
	}
	s.P50, s.P99 = quantile.Of(ns, 0.5), quantile.Of(ns, 0.99)
	return s
}
