package arena

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Offload is the evaluation of fMoE (arXiv:2502.05370, section 6): experts in a memory budget,
// on a simulated clock.
type Offload struct {
	Shapes []string
	// Budgets are gigabytes of all hosts together; the first from 12 on is what parts without
	// budgets of their own have.
	Budgets []float64
	Seed    uint64
	Seeds   int
	// Distance is the prediction distance, Capacity that of stores of maps.
	Distance, Capacity int
	Texts              offload.Texts
	// Routing is what synthetic rows follow; Fitted tells what it is.
	Routing routing.StateParams
	Fitted  string
	// Recorded are texts of the demo model, if there are any: one traffic for each seed.
	Recorded []offload.Traffic
	// Online are traces of which requests are served from empty stores.
	Online []OnlineTrace
	// Variants are whether the parts beside the budgets run.
	Variants bool
	// Routings are those that are served, of OffloadRoutings.
	Routings []string
	Threads  int
	Progress func(format string, args ...any)
}

// GB is a gigabyte of a budget.
const gigabyte = 1e9

// The parts of the report.
const (
	partBudget   = "budget"
	partHalves   = "one half is known"
	partPatterns = "patterns" // figure 12a
	partOrders   = "orders"   // figure 12b
	partCapacity = "capacity" // figure 14a
	partBatch    = "batch"    // figure 14b
	partShared   = "one shared link"
	partBelow    = "memory below"
	partPrompts  = "maps of prompts"
)

// The kinds of routing beside those of the other suite.
const (
	routingWeak          = "weak"
	routingUnpredictable = "unpredictable"
	routingRecorded      = "recorded"
)

// OffloadRoutings are all: fitted to the demo model's, with odds of foretelling that are smaller, larger, or none, and
// the demo model's own, if it is recorded.
func OffloadRoutings() []string {
	return []string{routingFitted, routingWeak, routingStrong, routingUnpredictable, routingRecorded}
}

// strengths are what odds of foretelling are multiplied with.
var strengths = []struct {
	name   string
	factor float64
}{{routingWeak, 0.25}, {routingStrong, 4}}

var (
	distances  = []int{1, 2, 3, 4, 5, 6}
	capacities = []int{64, 128, 256, 512, 1000, 2000, 4000}
	batches    = []int{1, 2, 4, 8, 16, 32}
)

// Check says what is wrong with the settings.
func (s Offload) Check() error {
	switch {
	case len(s.Shapes) == 0 && len(s.Recorded) == 0:
		return errors.New("no shape is named")
	case len(s.Budgets) == 0:
		return errors.New("no budget is named; name gigabytes, such as 6GB,12GB")
	case s.Seeds < 1 || s.Seeds > MostSeeds:
		return fmt.Errorf("%d seeds are asked for; there must be 1 to %d", s.Seeds, MostSeeds)
	case len(s.Routings) == 0 || slices.ContainsFunc(s.Routings, func(name string) bool { return !slices.Contains(OffloadRoutings(), name) }):
		return fmt.Errorf("routings are %q; there are %s", s.Routings, strings.Join(OffloadRoutings(), ", "))
	case s.Capacity < 1:
		return fmt.Errorf("--maps: the capacity of the store is %d maps; it must be 1 or more, such as 1000", s.Capacity)
	}
	bed, err := offload.RTX3090()
	if err != nil {
		return err
	}
	for i, name := range s.Shapes {
		m, err := offload.Open(name)
		if err != nil {
			return err
		}
		if slices.Contains(s.Shapes[:i], name) {
			return fmt.Errorf("shape %q is named twice", name)
		}
		if s.Distance < 1 || s.Distance >= m.Layers {
			return fmt.Errorf("--prefetch: the prediction distance is %d; %s has %d layers: it must be 1 to %d", s.Distance, name, m.Layers, m.Layers-1)
		}
		for _, gb := range s.Budgets {
			if err := bed.Check(m, gb*gigabyte); err != nil {
				return fmt.Errorf("--budget: %w", err)
			}
		}
	}
	if len(s.jobs()) == 0 {
		return fmt.Errorf("nothing is simulated of the routings %q: recorded needs a recording, and all but that and fitted are variants", s.Routings)
	}
	return errors.Join(s.Texts.Check(), s.Routing.Check())
}

// middle is the budget of parts that vary something else: the paper names none (figure 9).
func (s Offload) middle() float64 { return Middle(s.Budgets) }

// Middle is the first of budgets, in gigabytes, from 12 on, or the last.
func Middle(budgets []float64) float64 {
	for _, gb := range budgets {
		if gb >= 12 {
			return gb
		}
	}
	return budgets[len(budgets)-1]
}

// offloadJob is one traffic, of which all runs share what is foreseen.
type offloadJob struct {
	shape, routing string
	seed           uint64
	traffic        func() (offload.Traffic, error)
	run            func(*offloadBench) error
}

// RunOffload compares all policies.
func RunOffload(ctx context.Context, s Offload) (*OffloadReport, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	began := time.Now()
	bed, err := offload.RTX3090()
	if err != nil {
		return nil, err
	}
	jobs := s.jobs()
	benches := make([]*offloadBench, len(jobs))
	several := Settings{Threads: s.Threads, Progress: s.Progress}
	err = several.inParallel(ctx, len(jobs), "fmoe", func(ctx context.Context, i int) error {
		j := jobs[i]
		t, err := j.traffic()
		if err != nil {
			return err
		}
		b := &offloadBench{Offload: s, ctx: ctx, job: j, bed: bed, traffic: t}
		for i, bits := range entropies(b.traffic) {
			b.entropies = append(b.entropies, OffloadEntropy{b.job.shape, b.job.routing, b.job.seed, i + 1, bits})
		}
		b.draw()
		if err := j.run(b); err != nil {
			return fmt.Errorf("%s, %s routing, seed %d: %w", j.shape, j.routing, j.seed, err)
		}
		b.traffic, b.first = offload.Traffic{}, nil // they take much memory
		benches[i] = b
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := &OffloadReport{
		Budgets: s.Budgets, Seed: s.Seed, Seeds: s.Seeds, Distance: s.Distance, Capacity: s.Capacity, Texts: s.Texts, Middle: s.middle(),
		Routing: s.Fitted, Params: s.Routing,
	}
	for _, b := range benches {
		if p := b.picture; p != nil && !slices.ContainsFunc(r.Pictures, func(other *OffloadPicture) bool { return other.Shape == p.Shape }) {
			r.Pictures = append(r.Pictures, b.picture)
		}
		r.Lines, r.Entropies, r.Online = append(r.Lines, b.lines...), append(r.Entropies, b.entropies...), append(r.Online, b.served...)
	}
	r.conclude()
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// jobs are all traffics, the short ones behind the long ones of a shape.
func (s Offload) jobs() (jobs []offloadJob) {
	jobs = s.online() // they take longest
	for _, name := range s.Shapes {
		for i := range uint64(s.Seeds) {
			jobs = append(jobs, s.synthetic(name, routingFitted, s.Routing, s.Seed+i, (*offloadBench).all))
			for _, k := range strengths {
				jobs = append(jobs, s.synthetic(name, k.name, s.Routing.Stronger(k.factor), s.Seed+i, (*offloadBench).atMiddle))
			}
			jobs = append(jobs, s.synthetic(name, routingUnpredictable, s.Routing.Unpredictable(), s.Seed+i, (*offloadBench).unforeseen))
		}
	}
	for i, t := range s.Recorded {
		jobs = append(jobs, offloadJob{
			shape: t.Name, routing: routingRecorded, seed: s.Seed + uint64(i), run: (*offloadBench).all,
			traffic: func() (offload.Traffic, error) { return t, nil },
		})
	}
	return slices.DeleteFunc(jobs, func(j offloadJob) bool {
		variant := j.routing != routingFitted && j.routing != routingRecorded
		return !slices.Contains(s.Routings, j.routing) || variant && !s.Variants
	})
}

func (s Offload) synthetic(shape, kind string, p routing.StateParams, seed uint64, run func(*offloadBench) error) offloadJob {
	return offloadJob{shape: shape, routing: kind, seed: seed, run: run, traffic: func() (t offload.Traffic, err error) {
		m, err := offload.Open(shape)
		if err != nil {
			return t, err
		}
		texts := s.Texts
		if s.Variants && (kind == routingFitted && seed == s.Seed || kind == routingUnpredictable) { // batches need more of them
			texts.Served = max(texts.Served, batches[len(batches)-1])
		}
		return offload.Synthetic(m, p, texts, seed)
	}}
}
