package arena

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/sim"
)

// MostSeeds is how many seeds are compared at most: as many as there are quantiles for.
const MostSeeds = quantile.MostValues

// Interval is how a policy differs from a baseline on the short slice, over seeds: both
// have the same requests and routing in each.
type Interval struct {
	Shape   string `json:"shape"`
	Policy  string `json:"policy"`
	What    string `json:"what"`
	Against string `json:"against"`
	Seeds   int    `json:"seeds"`
	// Change is the mean, as a part of the baseline's; Low and High are where the mean
	// lies with 95 % (Student's t, differences paired by seed).
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// seeded are all policies on the short slice with other seeds: of requests' domains, of
// routing, and of what predictions err in. A line's value is its seed.
func (s Settings) seeded(ctx context.Context, m sim.Model) (lines []Line, err error) {
	if s.Seeds < 2 {
		return nil, nil
	}
	first := s.Seed
	for i := range s.Seeds {
		s.Seed = first + uint64(i)
		w, err := s.workload(m, s.Routing, min(s.Short, s.Slice))
		if err != nil {
			return nil, err
		}
		jobs := s.policies(m, partSeeds, routingFitted, w)
		for at := range jobs {
			jobs[at].value = float64(s.Seed)
		}
		more, err := s.runAll(ctx, jobs)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

func (s Settings) checkSeeds() error {
	if s.Seeds < 0 || s.Seeds == 1 || s.Seeds > MostSeeds {
		return fmt.Errorf("%d seeds are asked for; an interval needs 2 to %d, or 0 for none", s.Seeds, MostSeeds)
	}
	return nil
}

// intervals are those of all shapes and policies.
func (r *Report) intervals() (all []Interval) {
	for _, shape := range r.shapes() {
		for _, against := range r.suite.Baselines {
			for _, policy := range r.suite.names() {
				if policy != against {
					all = append(all, r.intervalsOf(shape, policy, against)...)
				}
			}
		}
	}
	return all
}

func (r *Report) intervalsOf(shape, policy, against string) (all []Interval) {
	for _, m := range r.suite.Measures {
		if mean, half, ok := r.overSeeds(shape, policy, against, m.Of); ok {
			all = append(all, Interval{
				Shape: shape, Policy: policy, What: m.What, Against: against, Seeds: len(r.bySeed(shape, policy)),
				Change: mean, Low: mean - half, High: mean + half,
			})
		}
	}
	return all
}

// overSeeds is the mean change of a figure against another policy's and half its interval, if
// both were run with several seeds.
func (r *Report) overSeeds(shape, policy, against string, of func(*Line) float64) (mean, half float64, ok bool) {
	ours, theirs := r.bySeed(shape, policy), r.bySeed(shape, against)
	if len(ours) < 2 || len(ours) != len(theirs) {
		return 0, 0, false
	}
	changes := make([]float64, len(ours))
	for i := range ours {
		changes[i] = of(ours[i])/of(theirs[i]) - 1 // a layer with a row takes time and memory
	}
	mean, half = quantile.Interval95(changes)
	return mean, half, true
}

// bySeed are a policy's lines in the order of seeds.
func (r *Report) bySeed(shape, policy string) (lines []*Line) {
	for i := range r.Lines {
		if l := &r.Lines[i]; l.Part == partSeeds && l.Shape == shape && l.Policy == policy {
			lines = append(lines, l)
		}
	}
	return lines
}
