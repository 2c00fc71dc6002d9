package bursts

import (
	"math"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// Second is one second of a run.
type Second struct {
	P90        [2]float64 // of the seconds that its steps of a phase took; 0: it has none
	Thresholds [2]float64 // at its end
}

// Result is what a run gave.
type Result struct {
	Elapsed    float64
	Requests   int // that ended
	Refused    int
	Scaled     float64 // when the second replica came; 0: never
	Unfinished int
	Tokens     int       // generated
	TTFT, TPOT []float64 // of requests, in seconds
	Steps      [2]int    // with prompts, and without
	Missed     [2]int    // of them, above the phase's SLO
	// Gaps are tokens after the first; Late are those that came later than the SLO of decode behind
	// the one before.
	Gaps, Late int
	Prompted   [2]int // prompts, and of them those in steps above the SLO
	// Seconds of the steps of each phase, and of their experts.
	Took, Experts [2]float64
	Before, After int // accesses without and with the brownout
	Routed, Kept  int // routed rows, and those that their own experts computed
	Changes       []Change
	Trace         []Second
	of            [2][]float64 // seconds of steps in the second at hand
	all           [2][]float64 // and of all
}

// Change is a move of a threshold.
type Change struct {
	At       float64
	Phase    int
	From, To float64
}

func (r *Result) moved(at float64, phase, from, to int) {
	if from != to {
		r.Changes = append(r.Changes, Change{at, phase, share(from), share(to)})
	}
}

func share(millionths int) float64 { return float64(millionths) / brownout.One }

// took counts a step that ended at a time.
func (r *Result) took(at float64, s spent, prompts, sequences int, thresholds [2]int, slo [2]float64) {
	phase := Decode
	if prompts > 0 {
		phase = Prefill
	}
	r.Tokens += sequences
	r.Steps[phase]++
	if s.seconds > slo[phase] {
		r.Missed[phase]++
	}
	r.Took[phase] += s.seconds
	r.Experts[phase] += s.experts
	r.Before, r.After, r.Routed, r.Kept = r.Before+s.before, r.After+s.after, r.Routed+s.total, r.Kept+s.kept
	for len(r.Trace) <= int(at) {
		for i := range r.of {
			r.of[i] = r.of[i][:0]
		}
		r.Trace = append(r.Trace, Second{})
	}
	r.of[phase], r.all[phase] = append(r.of[phase], s.seconds), append(r.all[phase], s.seconds)
	now := &r.Trace[len(r.Trace)-1]
	now.Thresholds = [2]float64{share(thresholds[0]), share(thresholds[1])}
	for i := range r.of {
		now.P90[i] = brownout.NearestRank(r.of[i], 0.9)
	}
}

func (r *Result) token(gap, slo float64) {
	r.Gaps++
	if gap > slo {
		r.Late++
	}
}

// MissedSeconds is the share of the seconds in [from, to) that have steps of the phase whose P90
// is above the SLO, and the mean threshold and the deviation of the P90s there.
func (r *Result) MissedSeconds(phase int, from, to, slo float64) (missed, threshold, deviation float64) {
	n, sum, squares := 0.0, 0.0, 0.0
	for i := int(from); i < min(int(to), len(r.Trace)); i++ {
		s := r.Trace[i]
		if s.P90[phase] == 0 {
			continue
		}
		n++
		threshold += s.Thresholds[phase]
		sum, squares = sum+s.P90[phase], squares+s.P90[phase]*s.P90[phase]
		if s.P90[phase] > slo {
			missed++
		}
	}
	if n == 0 {
		return 0, 1, 0
	}
	return missed / n, threshold / n, math.Sqrt(max(0, squares/n-sum/n*sum/n))
}

// Reversals counts the moves of a phase's threshold in [from, to) that go against the one before.
func (r *Result) Reversals(phase int, from, to float64) (n int) {
	last := 0.0
	for _, c := range r.Changes {
		if c.Phase != phase || c.At < from || c.At >= to {
			continue
		}
		by := c.To - c.From
		if by*last < 0 {
			n++
		}
		last = by
	}
	return n
}

// Back is how many seconds behind a time both thresholds are 1 until another one; all of them if they
// are not.
func (r *Result) Back(at, to float64) float64 {
	for i := min(int(to), len(r.Trace)) - 1; i >= int(at); i-- {
		if r.Trace[i].Thresholds != [2]float64{1, 1} {
			return float64(i+1) - at
		}
	}
	return 0
}

// still is for how many seconds the SLO must be kept to count as settled.
const still = 10

// Settled is how many seconds behind a time the first ten begin in which no P90 of a phase is above
// the SLO; until the end if there are none.
func (r *Result) Settled(phase int, at, to, slo float64) float64 {
	since := at
	for i := int(at); i < min(int(to), len(r.Trace)); i++ {
		if r.Trace[i].P90[phase] > slo {
			since = float64(i + 1)
		}
		if float64(i+1)-since >= still {
			return since - at
		}
	}
	return to - at
}

// Quantile is the nearest-rank quantile of numbers, which it sorts.
func Quantile(ns []float64, q float64) float64 { return brownout.NearestRank(ns, q) }

// P90 is that of the seconds of all steps of a phase.
func (r *Result) P90(phase int) float64 { return brownout.NearestRank(r.all[phase], 0.9) }
