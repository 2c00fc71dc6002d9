package arena

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// prediction is figure 10: how far foretold rows are from real ones, in the mean of test batches.
func (l *batchLab) prediction() error {
	for _, m := range bayes.Methods() {
		by, err := bayes.New(l.split.Table, m, l.split.Frequency)
		if err != nil {
			return err
		}
		line := l.line(partFigure10, m.Name)
		began := time.Now()
		for _, b := range l.test {
			loads, err := by.Loads(b.Rows)
			if err != nil {
				return err
			}
			rows, relative := bayes.Difference(b.Real, loads)
			line.Difference, line.Error = line.Difference+rows/float64(len(l.test)), line.Error+relative/float64(len(l.test))
		}
		line.Plan = 1e3 * time.Since(began).Seconds() / float64(len(l.test))
		l.add(line)
	}
	return nil
}

// modes is figure 11, and figure 4: what each mode costs with the largest memory and one replica.
func (l *batchLab) modes() error {
	for _, tokens := range []int{256, 2560, 10240} {
		if tokens > l.Tokens {
			continue
		}
		came, err := l.split.Table.Real(l.test[0].Rows.Slice(0, tokens))
		if err != nil {
			return err
		}
		system, err := l.shape.System(l.conditions, tokens)
		if err != nil {
			return err
		}
		for _, m := range scatter.Modes {
			l.mode(system, came, m, tokens, m.String())
			kept := *system
			kept.Kept = true
			l.mode(&kept, came, m, tokens, m.String()+keptParameters)
		}
	}
	return nil
}

// keptParameters is behind modes of functions that keep their parameters from one invocation to the next.
const keptParameters = ", parameters kept"

// mode is what LambdaML's deployment by one mode costs.
func (l *batchLab) mode(y *scatter.System, came [][]float64, m scatter.Mode, tokens int, name string) {
	p, line := ods.LambdaML(y, m), l.line(partFigure11, name)
	line.Tokens, line.Feasible = tokens, true
	for _, broken := range y.Limits(p, came, 1e12) {
		line.Feasible = line.Feasible && broken.Name != "6f"
	}
	line.bill(y.Serve(p, came), tokens)
	l.add(line)
}

// targets is section V-D: what ODS, the cheapest plan and random modes cost as the limit comes near what
// no plan keeps. Limits are multiples of that.
func (l *batchLab) targets() error {
	loads := l.test[0].Real
	var no *ods.Infeasible
	if _, err := ods.Exact(l.system, loads, 0, ods.Default()); !errors.As(err, &no) {
		return fmt.Errorf("no limit at all is kept: %w", err)
	}
	for _, times := range []float64{1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 4} {
		if err := l.target(loads, no.Least*times, times); err != nil {
			return err
		}
	}
	return nil
}

// target is one limit.
func (l *batchLab) target(loads [][]float64, limit, times float64) error {
	each := ods.Default()
	each.PerLayer = true
	least := 0.0
	for _, p := range []struct {
		name string
		plan func() (*ods.Result, error)
	}{
		{"exact", func() (*ods.Result, error) { return ods.Exact(l.system, loads, limit, ods.Default()) }},
		{"ods", func() (*ods.Result, error) { return ods.ODS(l.system, loads, limit, ods.Default()) }},
		{"random", func() (*ods.Result, error) {
			return ods.Random(l.system, loads, limit, ods.Default(), l.seed)
		}},
		{"exact-per-layer", func() (*ods.Result, error) { return ods.Exact(l.system, loads, limit, each) }},
	} {
		line := l.line(partTargets, p.name)
		line.Limit, line.Times = limit, times
		began := time.Now()
		r, err := p.plan()
		line.Plan = 1e3 * time.Since(began).Seconds()
		if err != nil && !errors.Is(err, ods.ErrInfeasible) {
			return err
		}
		if err == nil {
			line.planned(r, limit)
			line.bill(l.system.Serve(&r.Plan, loads), l.Tokens)
			if p.name == "exact" {
				least = r.Bound
			}
			if least > 0 {
				line.Gap = line.Cost/least - 1
			}
		}
		l.add(line)
	}
	return nil
}

func (l *batchLab) problem(m bayes.Method) *bo.Problem {
	return &bo.Problem{Table: l.split.Table, Method: m, Frequency: l.split.Frequency, System: l.system, Batches: l.learn, Plan: l.plan}
}

// plan is the policy maker: ODS, and without a limit that can be kept, with the least that can.
func (l *batchLab) plan(loads [][]float64) (*scatter.Plan, error) {
	r, err := ods.ODS(l.system, loads, l.limit, ods.Default())
	var no *ods.Infeasible
	if errors.As(err, &no) {
		r, err = ods.ODS(l.system, loads, no.Least, ods.Default())
	}
	if err != nil {
		return nil, err
	}
	return &r.Plan, nil
}

// overall is figure 13 with figure 12 in it: the deployments, billed for the test batches.
func (l *batchLab) overall() error {
	l.clusters()
	if l.asked("lambdaml") {
		l.bills("lambdaml", ods.LambdaML(l.system, scatter.Indirect), 0, nil)
	}
	if l.asked("lambdaml-best") {
		l.bills("lambdaml-best", ods.LambdaML(l.system, l.best()), 0, nil)
	}
	problem := l.problem(bayes.Methods()[0])
	foretold, base, err := l.unlearnt(problem)
	if err != nil {
		return err
	}
	known, err := l.known()
	if err != nil {
		return err
	}
	if l.asked("bo-ods") {
		for _, a := range bo.Acquisitions {
			if err := l.tune(problem, a, base, l.cost(known)); err != nil {
				return err
			}
		}
	}
	if slices.Contains(l.Policies, boSettings) { // only where it is asked for: it takes as long as all else
		if err := l.settings(problem, base, l.cost(known)); err != nil {
			return err
		}
	}
	return l.remoe(foretold)
}

// unlearnt are deployments by the table as it is: what it foretells, and what ODS's costs.
func (l *batchLab) unlearnt(problem *bo.Problem) (foretold [][]float64, base float64, err error) {
	began := time.Now()
	if foretold, err = problem.Foretell(nil); err != nil {
		return nil, 0, err
	}
	plan, err := l.plan(foretold)
	if err != nil {
		return nil, 0, err
	}
	if l.asked("ods") {
		l.bills("ods", plan, time.Since(began), foretold)
	}
	if l.asked("ods-expected") {
		if err := l.expected(); err != nil {
			return nil, 0, err
		}
	}
	if l.asked(boodsPlus) {
		if err := l.kept(); err != nil {
			return nil, 0, err
		}
	}
	if l.asked("random") {
		r, err := ods.Random(l.system, foretold, l.limit, ods.Default(), l.seed)
		if err != nil {
			return nil, 0, err
		}
		l.bills("random", &r.Plan, 0, foretold)
	}
	return foretold, l.cost(plan), nil
}

func (l *batchLab) asked(name string) bool {
	return len(l.Policies) == 0 || slices.Contains(l.Policies, name)
}

// best is the mode in which LambdaML costs least of those that can be had.
func (l *batchLab) best() scatter.Mode {
	best, least := scatter.Indirect, 0.0
	for _, m := range scatter.Modes {
		p := ods.LambdaML(l.system, m)
		fits := !slices.ContainsFunc(l.system.Limits(p, l.test[0].Real, 1e12), func(b scatter.Limit) bool { return b.Name == "6f" })
		if c := l.cost(p); fits && (least == 0 || c < least) {
			best, least = m, c
		}
	}
	return best
}

// cost is what a plan costs in the mean of test batches.
func (l *batchLab) cost(p *scatter.Plan) (mean float64) {
	for _, b := range l.test {
		bill := l.system.Serve(p, b.Real)
		mean += bill.Cost / float64(len(l.test))
	}
	return mean
}

// bills adds a line of a plan.
func (l *batchLab) bills(name string, p *scatter.Plan, took time.Duration, foretold [][]float64) {
	line := l.line(partFigure13, name)
	line.Limit, line.Plan = l.limit, 1e3*took.Seconds()
	line.Modes = modesOf(p)
	for _, b := range l.test {
		one := l.system.Serve(p, b.Real)
		line.mean(one, l.Tokens, len(l.test))
		if foretold != nil {
			_, relative := bayes.Difference(b.Real, foretold)
			line.Error += relative / float64(len(l.test))
		}
	}
	line.Feasible = line.Latency <= l.limit
	l.add(line)
}

// clusters are the machines that hold the whole model. Layers beside experts run on them, too.
func (l *batchLab) clusters() {
	for _, c := range []struct {
		name          string
		fused, fitted bool
	}{{"cpu-cluster", false, false}, {"cpu-cluster-fused", true, false}, {"cpu-fitted", false, true}} {
		if !l.asked(c.name) {
			continue
		}
		y := l.shape.Cluster(l.conditions, c.fused, c.fitted)
		dense := l.system.Beside() * l.conditions.Platform.CPU.Rate * l.conditions.Platform.CPUs(slices.Max(l.conditions.Platform.Sizes)) / y.CPU.Rate
		line := l.line(partFigure13, c.name)
		for _, b := range l.test {
			one := y.Serve(l.system, b.Real)
			one.Seconds += dense
			line.mean(one, l.Tokens, len(l.test))
		}
		line.Feasible = line.Latency <= l.limit
		l.add(line)
	}
}

// known is the plan by the rows that come, in the mean of test batches.
func (l *batchLab) known() (*scatter.Plan, error) {
	mean := l.meanRows()
	began := time.Now()
	limit := l.limit
	r, err := ods.Exact(l.system, mean, limit, ods.Default())
	var no *ods.Infeasible
	if errors.As(err, &no) {
		r, err = ods.Exact(l.system, mean, no.Least, ods.Default())
	}
	if err != nil {
		return nil, err
	}
	if l.asked("exact") {
		l.bills("exact", &r.Plan, time.Since(began), mean)
	}
	return &r.Plan, nil
}

// searchSettings are those of a search that has not been told otherwise.
func (l *batchLab) searchSettings(a bo.Acquisition) bo.Settings {
	set := bo.Default()
	set.Acquisition, set.Q, set.Seed = a, l.Pairs, l.seed
	set.Alpha = 0.01 * float64(l.Tokens*l.shape.TopK) / float64(l.shape.Experts)
	return set
}

// tune is figure 12: what is learnt costs beside the table as it is, and beside known rows.
func (l *batchLab) tune(p *bo.Problem, a bo.Acquisition, base, known float64) error {
	began := time.Now()
	s, plan, err := l.searched(p, l.searchSettings(a), string(a), base, known)
	if err == nil && a == bo.Multi {
		l.bills("bo-ods", plan, time.Since(began), s.Best().Loads)
	}
	return err
}

// searched is a search with the plan of what it has learnt, and adds a line of it.
func (l *batchLab) searched(p *bo.Problem, set bo.Settings, name string, base, known float64) (*bo.State, *scatter.Plan, error) {
	began := time.Now()
	search, err := bo.New(p, set)
	if err != nil {
		return nil, nil, err
	}
	rounds, err := l.steps(search, func() bool { return search.Done() })
	if err != nil {
		return nil, nil, err
	}
	took, s := time.Since(began), search.State
	plan, err := l.plan(s.Best().Loads)
	if err != nil {
		return nil, nil, err
	}
	if set.Acquisition == bo.Multi || set.Acquisition == bo.Single { // the others have no ε that would fall
		if _, err := l.steps(search, func() bool { return search.Below > 0 }); err != nil {
			return nil, nil, err
		}
	}
	line := l.line(partFigure12, name)
	line.Rounds, line.RoundSeconds, line.Below, line.Theorem = rounds, took.Seconds()/float64(max(1, rounds)), search.Below, set.Rounds(0.01)
	line.KernelRows, line.KernelPairs = bo.Errors(p.Table, s.Trials)
	line.LearntRatio = s.Best().Cost / s.Trials[0].Cost
	line.Cost = l.cost(plan)
	line.Ratio, line.KnownRatio = line.Cost/base, line.Cost/known
	l.add(line)
	return &s, plan, nil
}

// steps has a search go on until something is so, or it has had all its rounds, and says how many it has had.
func (l *batchLab) steps(s *bo.Search, until func() bool) (rounds int, err error) {
	for rounds = len(s.Trials) - 1; rounds < l.Rounds && !until(); rounds++ {
		if err := errors.Join(l.ctx.Err(), s.Step()); err != nil {
			return rounds, err
		}
	}
	return rounds, nil
}

// remoe has Remoe plan the same rows within the same limit, as one request whose tokens are all a
// prompt.
func (l *batchLab) remoe(foretold [][]float64) error {
	if !l.asked("remoe") {
		return nil
	}
	y, err := l.shape.Remoe(l.conditions)
	if err != nil {
		return err
	}
	var activation []float32
	for _, of := range foretold {
		for _, d := range of {
			activation = append(activation, float32(d/float64(l.Tokens*l.shape.TopK)))
		}
	}
	line := l.line(partFigure13, "remoe")
	line.Limit = l.limit
	q := remoe.Request{Most: l.Tokens, Prompt: l.Tokens, SLO: serverless.SLO{TTFT: l.limit, TPOT: l.limit}}
	began := time.Now()
	d, err := remoe.Decide(y, q, activation, remoe.Settings{Step: 1. / 64})
	line.Plan = 1e3 * time.Since(began).Seconds()
	if errors.Is(err, remoe.ErrInfeasible) {
		l.add(line)
		return nil
	}
	if err != nil {
		return err
	}
	for _, b := range l.test {
		demand := serverless.Demand{Prompt: l.Tokens, Layers: make([]serverless.Rows, l.shape.Layers)}
		for i, of := range b.Real {
			demand.Layers[i] = serverless.Rows{Prefill: of, Decode: make([]float64, len(of))}
		}
		bill := y.Serve(&d.Plan, &demand, 0)
		n := float64(len(l.test))
		line.Cost, line.Functions = line.Cost+bill.Cost()/n, line.Functions+bill.Remote/n
		line.Latency, line.GBs = line.Latency+bill.TTFT()/n, line.GBs+(bill.FunctionGBs+bill.HostGBs+bill.GPUGBs)/n
	}
	line.Throughput = float64(l.Tokens) / line.Latency
	line.Feasible = line.Latency <= l.limit
	l.add(line)
	return nil
}

// modesOf counts the layers of each mode.
func modesOf(p *scatter.Plan) string {
	var n [4]int
	for _, one := range p.Layers {
		n[one.Mode]++
	}
	return fmt.Sprintf("%d pipelined, %d indirect, %d direct", n[scatter.Pipelined], n[scatter.Indirect], n[scatter.Direct])
}
