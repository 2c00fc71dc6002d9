package arena

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Remoe are the settings of the suite remoe: experts as functions of a serverless platform, with
// the paper's baselines (section V), always simulated.
type Remoe struct {
	Shapes, Policies []string
	Platform         string
	Past, Served     int // prompts of the past, and requests
	Seed             uint64
	Seeds            int
	// SLOs are multiples of what MIX takes, and Prices the GPU's memory's by that of hosts. The
	// first price is what parts have that do not vary it.
	SLOs, Prices []float64
	Variants     bool // beside prediction and SLOs
	// Stream, where it has a trace, is what requests come from, instead of one by one.
	Stream   RemoeStream
	Threads  int
	Progress func(format string, args ...any)
}

// The parts of the report.
const (
	partPrediction = "prediction" // figure 8
	partSLO        = "slo"        // figure 9, for each objective
	partPrice      = "price"
	partLengths    = "lengths" // figure 10
	partThreads    = "threads" // how many processors an expert's rows use
	partPlatform   = "platform"
	partFused      = "fused"    // kernels of the GPU that compute a layer's experts in one call
	partPrinted    = "printed"  // equations as printed
	partCoverage   = "coverage" // theorem 1
)

// variedSLO is the objective of parts that do not vary it.
const variedSLO = 2

// calibrated are the requests that bounds are calibrated on, before those that are served.
const calibrated = 10

// slowPolicies try many plans for a request.
var slowPolicies = []string{"remoe+joint", "remoe+layers", "exact"}

// Check says what is wrong with the settings.
func (s *Remoe) Check() error {
	switch {
	case len(s.Shapes) == 0:
		return fmt.Errorf("no shape is named; there are %s", strings.Join(rented.Names(), ", "))
	case s.Past < 20 || s.Past > 1<<20 || s.Served < 1 || s.Served > 1<<16:
		return fmt.Errorf("%d prompts of the past and %d requests are asked for; there must be 20 to %d, and 1 to %d", s.Past, s.Served, 1<<20, 1<<16)
	case s.Seeds < 1 || s.Seeds > MostSeeds:
		return fmt.Errorf("%d seeds are asked for; it must be 1 to %d", s.Seeds, MostSeeds)
	case len(s.SLOs) == 0 || len(s.Prices) == 0:
		return errors.New("no objective or no price is named; name one of each or more")
	}
	for _, v := range slices.Concat(s.SLOs, s.Prices) {
		if !(v > 0 && v <= 1000) {
			return fmt.Errorf("an objective or a price is %v times another; it must be above 0, and 1000 at most", v)
		}
	}
	if len(s.Stream.Trace) > 0 {
		if err := s.Stream.check(); err != nil {
			return err
		}
	}
	return errors.Join(s.checkPolicies(), s.checkShapes())
}

func (s *Remoe) checkPolicies() error {
	known := rented.Policies(1)
	for i, name := range s.Policies {
		if !slices.ContainsFunc(known, func(p rented.Policy) bool { return p.Name == name }) || slices.Contains(s.Policies[:i], name) {
			return fmt.Errorf("policy %q is unknown or named twice; there are %s", name, strings.Join(RemoePolicies(), ", "))
		}
	}
	return nil
}

func (s *Remoe) checkShapes() error {
	platform, err := profiles.OpenPlatform(s.Platform)
	if err != nil {
		return err
	}
	for i, name := range s.Shapes {
		shape, err := rented.Open(name)
		if err != nil {
			return err
		}
		if slices.Contains(s.Shapes[:i], name) {
			return fmt.Errorf("shape %q is named twice", name)
		}
		if _, err := shape.System(rented.Conditions{Platform: platform.Cost(), Ratio: s.Prices[0]}); err != nil {
			return fmt.Errorf("shape %s: %w", name, err)
		}
	}
	return nil
}

// RemoePolicies are the names of the suite's policies.
func RemoePolicies() (names []string) {
	for _, p := range rented.Policies(1) {
		names = append(names, p.Name)
	}
	return names
}

// RunRemoe runs all that the suite has.
func RunRemoe(ctx context.Context, s Remoe) (*RemoeReport, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if len(s.Stream.Trace) > 0 {
		return s.runStreams(ctx)
	}
	labs, err := eachLab(ctx, s.Threads, s.Shapes, s.Seeds, s.Seed, s.Progress, s.lab)
	if err != nil {
		return nil, err
	}
	r := &RemoeReport{Seed: s.Seed, Platform: s.Platform}
	for _, l := range labs {
		r.Lines = append(r.Lines, l.lines...)
		r.costs = append(r.costs, l.costs...)
		r.Figures = append(r.Figures, l.drawn...)
		r.Gaps = append(r.Gaps, l.gaps...)
	}
	r.compare()
	r.drawLines()
	return r, nil
}

// rentedLab runs a shape with a seed.
type rentedLab struct {
	*Remoe
	ctx      context.Context
	shape    rented.Shape
	seed     uint64
	platform *profiles.Platform
	texts    *rented.Texts
	store    *sps.Store
	scale    float64
	js       float64
	lines    []RemoeLine
	costs    [][]float64 // of each line's requests
	drawn    []RemoeFigure
	gaps     []RemoeGap
}

func (s *Remoe) lab(ctx context.Context, name string, seed uint64) (*rentedLab, error) {
	l := &rentedLab{Remoe: s, ctx: ctx, seed: seed}
	var err error
	if l.shape, err = rented.Open(name); err != nil {
		return nil, err
	}
	if l.platform, err = profiles.OpenPlatform(s.Platform); err != nil {
		return nil, err
	}
	if l.texts, err = l.shape.Write(routing.DemoStates(), s.Past, calibrated+s.Served, seed); err != nil {
		return nil, err
	}
	if err := l.predictions(); err != nil {
		return nil, err
	}
	l.coverage()
	if err := l.objectives(); err != nil {
		return l, err
	}
	if seed == s.Seed {
		if err := l.figures(); err != nil {
			return l, err
		}
	}
	if err := l.gap(); err != nil || !s.Variants {
		return l, err
	}
	return l, errors.Join(l.prices(), l.lengths(), l.processors(), l.others(), l.platforms())
}

// served are the requests behind those that bounds are calibrated on.
func (l *rentedLab) served() []rented.Served { return l.texts.Served[calibrated:] }

func (l *rentedLab) settings() sps.Settings {
	set := sps.Paper(l.shape.Layers, l.shape.Experts, l.texts.Width)
	set.Seed = l.seed
	return set
}

// foretold is what plans are made of: the tree with the fitted temperature.
func (l *rentedLab) foretold(q *rented.Served) []float32 { return l.store.Predict(q.Vector) }

// predictions are figure 8, with the times that building and searching take here.
func (l *rentedLab) predictions() error {
	for _, m := range rented.Methods(l.settings(), l.Past) {
		began := time.Now()
		store, err := l.shape.Store(l.texts, m.Settled, m.Fit)
		if m.Settled.Clustering == sps.PAM && errors.Is(err, sps.ErrSettings) {
			continue // there are too many prompts to exchange all medoids
		}
		if err != nil {
			return err
		}
		line := l.line(partPrediction, m.Name)
		line.Build = 1e3 * time.Since(began).Seconds()
		began = time.Now()
		for i := range l.served() {
			q := &l.served()[i]
			foretold, err := m.Predict(store, q)
			if err != nil {
				return err
			}
			line.JS += sps.Divergence(foretold, q.Activation, l.shape.Experts) / float64(l.Served)
		}
		line.Search = 1e6 * time.Since(began).Seconds() / float64(l.Served)
		line.Temperature = store.Temperature
		if m.Name == "sps+fitted" {
			l.store, l.js = store, line.JS
		}
		l.add(line, nil)
	}
	return l.ctx.Err()
}

// coverage is how often the bounds of remote rows hold.
func (l *rentedLab) coverage() {
	l.scale = l.shape.Calibrate(l.texts.Served[:calibrated], l.foretold)
	for _, b := range []struct {
		name string
		remoe.Bound
	}{{"printed", remoe.Bound{Printed: true}}, {"hoeffding", remoe.Bound{}}, {"calibrated", remoe.Bound{Scale: l.scale}}} {
		line := l.line(partCoverage, b.name)
		c := l.shape.Covered(b.Bound, l.served(), l.foretold)
		line.CoveredAny, line.Covered, line.Scale = c.Any, c.Least, b.Scale
		l.add(line, nil)
	}
}

// conditions are those of parts that do not vary them.
func (l *rentedLab) conditions() rented.Conditions {
	return rented.Conditions{Platform: l.platform.Cost(), Ratio: l.Prices[0]}
}

func (l *rentedLab) objectives() error {
	for _, times := range l.SLOs {
		if err := l.policies(partSLO, l.conditions(), times, l.served(), true); err != nil {
			return err
		}
	}
	return nil
}

// gap tells where what Remoe costs above the best of all plans comes from, where these are few.
func (l *rentedLab) gap() error {
	system, err := l.shape.System(l.conditions())
	if err != nil || !remoe.Few(system) {
		return err
	}
	o, err := rented.Objective(system, l.served(), variedSLO)
	if err != nil {
		return err
	}
	run := &rented.Run{System: system, SLO: o, Decided: rented.Decided, Foretold: l.foretold, Seed: l.seed}
	for i := range l.served() {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		g, err := run.Gap(&l.served()[i])
		switch {
		case errors.Is(err, rented.ErrNoGap):
			continue // no plan keeps its SLO
		case err != nil:
			return err
		}
		l.gaps = append(l.gaps, RemoeGap{l.shape.Name, l.seed, i, variedSLO, g})
	}
	return nil
}

func (l *rentedLab) prices() error {
	for _, ratio := range l.Prices {
		c := l.conditions()
		c.Ratio = ratio
		if err := l.policies(partPrice, c, variedSLO, l.served(), false); err != nil {
			return err
		}
	}
	return nil
}

func (l *rentedLab) lengths() error {
	for _, output := range []int{24, 49, 99, 199} {
		if err := l.policies(partLengths, l.conditions(), variedSLO, l.shape.Shortened(l.served(), output), false); err != nil {
			return err
		}
	}
	return nil
}

// processors vary how many of them an expert's rows use; 0 is all.
func (l *rentedLab) processors() error {
	for _, n := range []float64{1, 2, 4, 8, 0} {
		c := l.conditions()
		c.Threads, c.Any = n, n == 0
		if err := l.policies(partThreads, c, variedSLO, l.served(), false); err != nil {
			return err
		}
	}
	return nil
}

// others have kernels that compute a layer's experts in one call, and the equations as printed.
func (l *rentedLab) others() error {
	fused, printed := l.conditions(), l.conditions()
	fused.Fused, printed.Printed = true, true
	return errors.Join(l.policies(partFused, fused, variedSLO, l.served(), false), l.policies(partPrinted, printed, variedSLO, l.served(), false))
}

func (l *rentedLab) platforms() error {
	for _, name := range profiles.PlatformNames() {
		p, err := profiles.OpenPlatform(name)
		if err != nil {
			return err
		}
		c := l.conditions()
		c.Platform = p.Cost()
		from := len(l.lines)
		if err := l.policies(partPlatform, c, variedSLO, l.served(), false); err != nil {
			return err
		}
		for i := range l.lines[from:] {
			l.lines[from+i].Platform = name
		}
	}
	return nil
}

// policies serve requests under each policy; those that try many plans only where it is asked for,
// since they take long.
func (l *rentedLab) policies(part string, c rented.Conditions, times float64, served []rented.Served, best bool) error {
	system, err := l.shape.System(c)
	if err != nil {
		return err
	}
	o, err := rented.Objective(system, served, times)
	if err != nil {
		return err
	}
	run := &rented.Run{System: system, SLO: o, Decided: rented.Decided, Foretold: l.foretold, Seed: l.seed}
	for _, p := range rented.Policies(l.scale) {
		if len(l.Policies) > 0 && !slices.Contains(l.Policies, p.Name) || slices.Contains(slowPolicies, p.Name) && !best {
			continue
		}
		line := l.line(part, p.Name)
		line.SLO, line.Ratio, line.Processors, line.Output = times, c.Ratio, system.Functions.Threads, served[0].Demand.Output
		line.MostTTFT, line.MostTPOT = 1e3*o.TTFT, 1e3*o.TPOT
		costs, err := l.serve(&line, run, p, served)
		if err != nil {
			return fmt.Errorf("%s under %s: %w", l.shape.Name, p.Name, err)
		}
		l.add(line, costs)
	}
	return nil
}

// serve fills a line in.
func (l *rentedLab) serve(line *RemoeLine, run *rented.Run, p rented.Policy, served []rented.Served) (costs []float64, err error) {
	n := float64(len(served))
	var ttft, tpot []float64
	for i := range served {
		if err := l.ctx.Err(); err != nil {
			return nil, err
		}
		began := time.Now()
		o, err := p.Serve(run, &served[i])
		if err != nil {
			return nil, err
		}
		line.Plan += 1e3 * time.Since(began).Seconds() / n
		line.Cost, line.Cold = line.Cost+o.Cost()/n, line.Cold+(o.Cost()+o.Starting)/n
		line.Missed, line.Refused = line.Missed+one(o.Missed)/n, line.Refused+one(o.Refused)/n
		line.Start, line.Remote = line.Start+o.Bill.Cold/n, line.Remote+o.Ratio/n
		line.GPU, line.Host, line.Functions = line.GPU+o.GPUGBs/n, line.Host+o.HostGBs/n, line.Functions+o.FunctionGBs/n
		line.Calls, line.Splits = line.Calls+o.Calls/n, line.Splits+o.Splits
		if d := o.Decision; d != nil && d.Memory.Exact > 0 {
			line.SizesGap, line.KKT = max(line.SizesGap, d.Memory.Chosen/d.Memory.Exact-1), max(line.KKT, d.Memory.KKT)
			line.RoundedGap = max(line.RoundedGap, d.Memory.Rounded/d.Memory.Exact-1)
		}
		ttft, tpot, costs = append(ttft, 1e3*o.TTFT()), append(tpot, 1e3*o.TPOT()), append(costs, o.Cost())
	}
	line.GBs = line.GPU + line.Host + line.Functions
	line.JS = l.js
	slices.Sort(ttft)
	slices.Sort(tpot)
	line.TTFT50, line.TTFT99, line.TPOT50, line.TPOT99 = quantile.Of(ttft, 0.5), quantile.Of(ttft, 0.99), quantile.Of(tpot, 0.5), quantile.Of(tpot, 0.99)
	return costs, nil
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (l *rentedLab) device() string { return "simulated, A100 and " + l.platform.About }

func (l *rentedLab) line(part, policy string) RemoeLine {
	return RemoeLine{
		Suite: "remoe", Part: part, Shape: l.shape.Name, Policy: policy, Seed: l.seed, Device: l.device(),
		Platform: l.platform.Name, Requests: l.Served, Past: l.Past,
	}
}

func (l *rentedLab) add(line RemoeLine, costs []float64) {
	l.lines, l.costs = append(l.lines, line), append(l.costs, costs)
}
