package bo

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// How Kept looks for a share: the batches that it draws, the shares that it tries, and the least of them.
const (
	drawnBatches = 64
	halvings     = 7
	leastShare   = 0.8
)

// Kept plans foretold rows within a share of a limit of seconds, so large that rows as they come keep the limit in the mean: a layer's
// latency is that of its slowest expert (constraint 6d), and takes longer than planned when rows come otherwise than foretold. Rows
// that come are those of batches that are drawn of the learning batches' sequences by a seed. Where no share does, the least that has a
// plan counts.
func (p *Problem) Kept(limit float64, seed uint64, plan func(loads [][]float64, seconds float64) (*scatter.Plan, error)) (best *scatter.Plan, share float64, err error) {
	loads, err := p.Foretell(nil)
	if err != nil {
		return nil, 0, err
	}
	come, err := p.drawn(seed)
	if err != nil {
		return nil, 0, err
	}
	if best, err = plan(loads, limit); err != nil || p.latency(best, come) <= limit {
		return best, 1, err
	}
	share = 1
	from, to, keeps := leastShare, 1.0, false
	for range halvings {
		between := (from + to) / 2
		one, err := plan(loads, between*limit)
		if errors.Is(err, ods.ErrInfeasible) {
			from = between
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		kept := p.latency(one, come) <= limit
		if kept {
			from = between
		} else {
			to = between
		}
		if kept || !keeps {
			best, share, keeps = one, between, kept
		}
	}
	return best, share, nil
}

// latency is what a plan takes in the mean of batches.
func (p *Problem) latency(plan *scatter.Plan, batches [][][]float64) (mean float64) {
	for _, loads := range batches {
		b := p.System.Serve(plan, loads)
		mean += b.Seconds / float64(len(batches))
	}
	return mean
}

// starts are the numbers of the rows with which sequences begin, and that of all rows.
func starts(r *bayes.Rows) (all []int) {
	for i, at := range r.Positions {
		if i == 0 || at <= r.Positions[i-1] {
			all = append(all, i)
		}
	}
	return append(all, r.Len())
}

// drawn are the rows of each expert in batches of learning sequences, which are drawn with repetition.
func (p *Problem) drawn(seed uint64) (all [][][]float64, err error) {
	state := splitmix.Mix(seed ^ 0x6d)
	for i := range drawnBatches {
		rows := p.Batches[i%len(p.Batches)].Rows
		starts := starts(rows)
		sum := make([][]float64, p.System.Layers)
		for l := range sum {
			sum[l] = make([]float64, p.System.Experts)
		}
		for left := rows.Len(); left > 0; {
			at := int(splitmix.Next(&state) % uint64(len(starts)-1))
			n := min(left, starts[at+1]-starts[at])
			came, err := p.Table.Real(rows.Slice(starts[at], starts[at]+n))
			if err != nil {
				return nil, fmt.Errorf("learning batch %d: %w", i%len(p.Batches), err)
			}
			for l, of := range came {
				for e, d := range of {
					sum[l][e] += d
				}
			}
			left -= n
		}
		all = append(all, sum)
	}
	return all, nil
}
