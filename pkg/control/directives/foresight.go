package directives

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// governor decides on the threshold of a phase; a brownout.Controller does.
type governor interface {
	Threshold() int
	Set(threshold int, now float64)
	Bound(floor int)
	Observe(at, seconds float64)
	Ignored() int
	Advance(now float64, busy bool) brownout.Change
}

// foresight has the policy `predictive` decide, by what gates tell of some steps: costs are fitted to
// them, and the next step is like the newest, with a row more for each request that comes. While
// steps are heard of, but no gate tells what they access, algorithm 2 decides.
type foresight struct {
	ahead   *brownout.Predictive
	steady  *brownout.Controller
	phase   int
	most    float64 // accesses that a step can have
	samples []brownout.Sample
	views   map[string]*outlook // by replica
	// heard is when a step was heard of last, and seen when one of which gates had told.
	heard, seen float64
	fitted      bool
	ignored     int
}

// outlook is what a replica has before it.
type outlook struct {
	at     float64 // when its newest step was heard of
	steps  []seen  // the last ones
	coming int
}

// seen is a step of which gates have told.
type seen struct {
	rows  float64
	curve brownout.Curve
}

// longest returns the one with most rows.
func (o *outlook) longest() seen {
	return slices.MaxFunc(o.steps, func(a, b seen) int { return cmp.Compare(a.rows, b.rows) })
}

const (
	// mostSamples and remembered are how many steps costs are fitted to, and how many of them say
	// how large the next prompts may be.
	mostSamples = 256
	remembered  = 16
	// blindAfter is for how long gates may tell nothing, and forgottenAfter for how long what a
	// replica had before it is what it has, in seconds.
	blindAfter     = 5.0
	forgottenAfter = 60.0
)

func newForesight(r brownout.Rule, phase int, most, now float64) (*foresight, error) {
	steady, err := brownout.NewController(r, now)
	if err != nil {
		return nil, err
	}
	set := brownout.AheadOf(r.SLO)
	set.Calm = brownout.Calm
	ahead, err := brownout.NewPredictive(set, brownout.Costs{})
	if err != nil {
		return nil, err
	}
	return &foresight{ahead: ahead, steady: steady, phase: phase, most: most, views: map[string]*outlook{}, heard: now, seen: now}, nil
}

func (f *foresight) Threshold() int { return f.ahead.Threshold() }

func (f *foresight) Set(threshold int, now float64) {
	f.steady.Set(threshold, now)
	f.ahead.Set(threshold)
}

func (f *foresight) Bound(floor int) {
	f.steady.Bound(floor)
	f.ahead.Bound(floor)
}

func (f *foresight) Ignored() int { return f.ignored + f.steady.Ignored() }

// Observe hears what a step took.
func (f *foresight) Observe(at, seconds float64) {
	f.steady.Observe(at, seconds)
	f.heard = at
}

// see hears of a replica's step of which gates have told.
func (f *foresight) see(replica string, c *pb.StepCurve, now float64) {
	if !f.sound(c) {
		f.ignored++
		return
	}
	curve := make(brownout.Curve, len(c.Accesses))
	for i, n := range c.Accesses {
		curve[i] = float64(n)
	}
	if len(f.samples) == mostSamples {
		f.samples = f.samples[:copy(f.samples, f.samples[1:])]
	}
	f.samples = append(f.samples, brownout.Sample{Rows: int(c.Rows), Accesses: curve.At(int(c.Millionths)), Seconds: float64(c.Seconds)})
	f.seen, f.fitted = now, false
	v := f.views[replica]
	if v == nil {
		v = &outlook{}
		f.views[replica] = v
	}
	v.at = now
	v.steps = append(v.steps[max(0, len(v.steps)-remembered+1):], seen{float64(c.Rows), curve})
}

// sound reports whether a step can be.
func (f *foresight) sound(c *pb.StepCurve) bool {
	if c.GetRows() == 0 || c.Rows > mostRows || c.Millionths > brownout.One || len(c.Accesses) != Points || !(c.Seconds > 0 && c.Seconds < 3600) {
		return false
	}
	for _, n := range c.Accesses {
		if float64(n) > f.most {
			return false
		}
	}
	return c.Accesses[Points-1] > 0
}

// come hears how many rows more a replica's steps will have.
func (f *foresight) come(replica string, rows int) {
	if v := f.views[replica]; v != nil {
		v.coming = rows
	}
}

// Advance decides at a time.
func (f *foresight) Advance(now float64, busy bool) brownout.Change {
	if f.heard > f.seen+blindAfter {
		ch := f.steady.Advance(now, busy)
		if ch.Moved {
			f.ahead.Set(ch.Threshold)
		}
		return ch
	}
	if !f.fitted {
		f.ahead.Refit(brownout.Fit(f.samples), f.samples)
		f.fitted = true
	}
	var demand []brownout.Demand
	if busy {
		demand = f.demand(now)
	}
	ch := f.ahead.Advance(now, demand...)
	if len(demand) == 0 {
		ch.Samples = 0
		ch.Reason = "nothing to do: " + ch.Reason
	}
	if ch.Moved {
		f.steady.Set(ch.Threshold, now)
	}
	return ch
}

// demand returns what replicas have before them.
func (f *foresight) demand(now float64) (all []brownout.Demand) {
	for replica, v := range f.views {
		if v.at < now-forgottenAfter {
			delete(f.views, replica)
			continue
		}
		like, coming := v.steps[len(v.steps)-1], float64(v.coming)
		if f.phase == prefill { // the next prompt may be as long as the longest of late
			like, coming = v.longest(), 0
		}
		rows := like.rows + coming
		all = append(all, brownout.Demand{Steps: 1, Rows: int(math.Round(rows)), Curve: like.curve.Grown(rows/like.rows, f.most)})
	}
	return all
}
