package bo

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// Batch are rows with what each expert had of them.
type Batch struct {
	Rows *bayes.Rows
	Real [][]float64
}

// Problem is what is learnt on.
type Problem struct {
	Table     *bayes.Table
	Method    bayes.Method
	Frequency bayes.Frequency
	System    *scatter.System
	Batches   []Batch
	// Plan is the policy maker: a deployment for foretold rows.
	Plan func(loads [][]float64) (*scatter.Plan, error)
}

// Case is how badly a plan fits: the paper's three cases, the worst first.
type Case int

// The cases. Fits is none of them.
const (
	Fits         Case = iota
	Mispredicted      // (iii) all constraints hold
	TooLarge          // (ii) a payload is exceeded
	TooLittle         // (i) a function's memory is too small
)

// Trial is one round.
type Trial struct {
	Pairs []bayes.Pair // Q variables; one that counts 0 leaves the table as it is
	Loads [][]float64  // foretold, in the mean of batches
	Cost  float64      // dollars, in the mean of batches
	Case  Case
	// Wrong are the batches with an expert whose rows were foretold wrongly by more than α a
	// replica.
	Wrong []int
	// Mended is how many functions of all batches needed more replicas than planned.
	Mended int
}

// set are the variables that change something.
func set(pairs []bayes.Pair) (out []bayes.Pair) {
	for _, p := range pairs {
		if p.Count > 0 {
			out = append(out, p)
		}
	}
	return out
}

// Foretell are the rows of each expert by the table with some pairs, in the mean of batches.
func (p *Problem) Foretell(pairs []bayes.Pair) ([][]float64, error) {
	t, err := p.Table.With(set(pairs))
	if err != nil {
		return nil, err
	}
	by, err := bayes.New(t, p.Method, p.Frequency)
	if err != nil {
		return nil, err
	}
	mean := make([][]float64, len(t.Layers))
	for l := range mean {
		mean[l] = make([]float64, t.Experts)
	}
	for i := range p.Batches {
		loads, err := by.Loads(p.Batches[i].Rows)
		if err != nil {
			return nil, err
		}
		for l, of := range loads {
			for e, d := range of {
				mean[l][e] += d / float64(len(p.Batches))
			}
		}
	}
	return mean, nil
}

// try is a round with some pairs. A function that is wrong by more than alpha rows a replica counts.
func (p *Problem) try(pairs []bayes.Pair, alpha float64) (*Trial, error) {
	loads, err := p.Foretell(pairs)
	if err != nil {
		return nil, err
	}
	plan, err := p.Plan(loads)
	if err != nil {
		return nil, fmt.Errorf("planning by the table: %w", err)
	}
	t := &Trial{Pairs: pairs, Loads: loads}
	for i := range p.Batches {
		came := p.Batches[i].Real
		b := p.System.Serve(plan, came)
		t.Cost += b.Cost / float64(len(p.Batches))
		t.Mended += b.Short + b.Large
		if c := p.fit(plan, loads, came, alpha); c != Fits {
			t.Wrong = append(t.Wrong, i)
			t.Case = max(t.Case, c)
		}
	}
	return t, nil
}

// fit is the worst case of a plan's functions.
func (p *Problem) fit(plan *scatter.Plan, loads, came [][]float64, alpha float64) (worst Case) {
	for l := range came {
		for e, d := range came[l] {
			one := &plan.Layers[l]
			f := one.Experts[e]
			r := scatter.Rows(d, f.Replicas)
			if math.Abs(float64(scatter.Rows(loads[l][e], f.Replicas)-r)) <= alpha {
				continue
			}
			switch {
			case r > p.System.Room(f.Memory):
				worst = max(worst, TooLittle)
			case one.Mode == scatter.Direct && r > p.System.Functions.Rows(max(p.System.In, p.System.Out)):
				worst = max(worst, TooLarge)
			default:
				worst = max(worst, Mispredicted)
			}
		}
	}
	return worst
}

// Check says what is wrong with a problem.
func (p *Problem) Check() error {
	if len(p.Batches) == 0 {
		return fmt.Errorf("%w: there are no batches to learn on", ErrSettings)
	}
	if p.Table.Experts != p.System.Experts || len(p.Table.Layers) != p.System.Layers {
		return fmt.Errorf("%w: the table is of %d layers with %d experts, and the system of %d with %d", ErrSettings, len(p.Table.Layers), p.Table.Experts, p.System.Layers, p.System.Experts)
	}
	for _, b := range p.Batches {
		if err := p.System.CheckLoads(b.Real); err != nil {
			return err
		}
	}
	return nil
}

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
