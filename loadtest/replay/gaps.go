package replay

import (
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
)

// Gaps are the times between the chunks of an answer.
type Gaps struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

// settles is how long after a plan's coming into use tokens count as of the change.
const settles = 250 * time.Millisecond

// Gaps are those of all answers, apart for those that a change of plans overlaps.
func (r *Result) Gaps() (steady, rescaling Gaps) {
	windows := r.windows()
	by := map[bool][]float64{}
	for _, a := range r.Answers {
		for i := 1; i < len(a.Times); i++ {
			moving := overlaps(windows, a.Times[i-1], a.Times[i])
			by[moving] = append(by[moving], 1e3*(a.Times[i]-a.Times[i-1]).Seconds())
		}
	}
	return gapsOf(by[false]), gapsOf(by[true])
}

func gapsOf(ms []float64) Gaps {
	slices.Sort(ms)
	return Gaps{len(ms), quantile.Of(ms, 0.5), quantile.Of(ms, 0.99)}
}

// window is a time in which plans changed.
type window struct{ from, to time.Duration }

// windows are those of all changes, joined where they overlap.
func (r *Result) windows() (all []window) {
	for _, c := range r.Changes {
		w := window{c.At, max(c.At, c.Serving) + settles}
		if n := len(all); n > 0 && all[n-1].to >= w.from {
			all[n-1].to = max(all[n-1].to, w.to)
			continue
		}
		all = append(all, w)
	}
	return all
}

func overlaps(all []window, from, to time.Duration) bool {
	return slices.ContainsFunc(all, func(w window) bool { return w.from < to && from < w.to })
}

// Reaction is how the plan followed a change of the load.
type Reaction struct {
	// Planned and Serving are from the first request of the new load until a plan is
	// written that gives an expert more replicas, and until all of it serves.
	Planned, Serving time.Duration
}

// Reactions are those to changes of the requests' domain. Where the plan did not
// change, there is none.
func (r *Result) Reactions(requests []Request) (all []Reaction) {
	for i := 1; i < len(requests); i++ {
		if requests[i].Domain == requests[i-1].Domain {
			continue
		}
		end := r.Took
		if next := slices.IndexFunc(requests[i:], func(q Request) bool { return q.Domain != requests[i].Domain }); next > 0 {
			end = r.Answers[i+next].Sent
		}
		if to := r.reaction(r.Answers[i].Sent, end); to != nil {
			all = append(all, *to)
		}
	}
	return all
}

func (r *Result) reaction(from, end time.Duration) *Reaction {
	for _, c := range r.Changes {
		if c.At >= from && c.At < end && c.More > 0 && c.Serving > 0 {
			return &Reaction{c.At - from, c.Serving - from}
		}
	}
	return nil
}

// Moves are what replicas did in a run.
type Moves struct {
	// Gained counts experts that had more than one replica at some time, Slept those
	// that went to zero, and Woke those that came back from there.
	Gained int `json:"experts_gained"`
	Slept  int `json:"experts_to_zero"`
	Woke   int `json:"experts_back"`
	Most   int `json:"replicas_most"`
}

// Moves looks at all frames.
func (r *Result) Moves() (m Moves) {
	for e := range r.Shape.Layers * r.Shape.Experts {
		gained, slept, woke := false, false, false
		for i := range r.Frames {
			n := r.Frames[i].Warm[e]
			gained, slept, woke = gained || n > 1, slept || n == 0, woke || slept && n > 0
			m.Most = max(m.Most, n)
		}
		m.Gained, m.Slept, m.Woke = m.Gained+one(gained), m.Slept+one(slept), m.Woke+one(woke)
	}
	return m
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
