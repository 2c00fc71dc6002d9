package arena

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/serverless/batched"
)

// BOODS are the settings of the suite bo-ods: experts as functions that are planned before batches
// come, with the paper's baselines (section V), always simulated.
type BOODS struct {
	Shapes, Policies []string // with policies named, these deployments alone run, and no other part
	Platform         string
	// Recorded are the sequences of a recording, for the shape of its model; other shapes have
	// Sequences that are written for them, and as many more as test batches need.
	Recorded  *batched.Texts
	Sequences int
	Tokens    int // of a batch
	Learn     int // batches that a search learns on
	Test      int // batches that plans are billed for
	Rounds    int // of a search, at most
	Pairs     int // variables of a search
	// Limit is the latency that plans may have, as a multiple of LambdaML's.
	Limit    float64
	Seed     uint64
	Seeds    int
	Threads  int
	Progress func(format string, args ...any)
}

// profiled is the share of sequences that tables are made of (section V-B).
const profiled = 0.95

// The bounds of settings.
const (
	LeastBatchTokens = 256
	MostBatchTokens  = 1 << 20
	MostBatches      = 1<<12 - 1
	MostTuneRounds   = 1 << 12
	MostLatency      = 1000
)

// The parts of the report.
const (
	partFigure10 = "prediction"
	partFigure11 = "modes"   // and 4
	partTargets  = "targets" // section V-D
	partFigure12 = "tuning"
	partFigure13 = "overall" // and 2
)

// boodsPlus is ours: expected counts, and a margin on the limit.
const boodsPlus = "bo-ods+"

// BOODSPolicies are the names of the suite's deployments (figure 13), and of what they are compared with.
func BOODSPolicies() []string {
	return []string{"cpu-cluster", "cpu-cluster-fused", "cpu-fitted", "lambdaml", "lambdaml-best", "random", "ods", "ods-expected", boodsPlus, "bo-ods", "exact", "remoe"}
}

// Check says what is wrong with the settings.
func (s *BOODS) Check() error {
	switch {
	case len(s.Shapes) == 0:
		return fmt.Errorf("no shape is named; there are %s", strings.Join(batched.Names(), ", "))
	case s.Tokens < LeastBatchTokens || s.Tokens > MostBatchTokens || s.Learn < 1 || s.Test < 1 || s.Learn+s.Test > MostBatches+1:
		return fmt.Errorf("batches of %d tokens, %d to learn on and %d to test are asked for; there must be %d to %d tokens, and 1 batch of each or more, %d together", s.Tokens, s.Learn, s.Test, LeastBatchTokens, MostBatchTokens, MostBatches+1)
	case s.Sequences < 1:
		return fmt.Errorf("%d sequences are asked for; there must be 1 or more", s.Sequences)
	case s.Recorded == nil && s.Sequences+batched.Written(s.Test*s.Tokens) > batched.MostSequences:
		return fmt.Errorf("--sequences is %d and test batches need %d more; there can be %d together: take fewer, or fewer --batches or --batch-tokens",
			s.Sequences, batched.Written(s.Test*s.Tokens), batched.MostSequences)
	case s.Seeds < 1 || s.Seeds > MostSeeds || s.Rounds < 1 || s.Rounds > MostTuneRounds:
		return fmt.Errorf("%d seeds and %d rounds are asked for; there must be 1 to %d, and 1 to %d", s.Seeds, s.Rounds, MostSeeds, MostTuneRounds)
	case !(s.Limit > 0 && s.Limit <= MostLatency):
		return fmt.Errorf("the limit is %v times LambdaML's latency; it must be above 0, and %d at most", s.Limit, MostLatency)
	}
	search := bo.Default()
	search.Q = s.Pairs
	if err := search.Check(); err != nil {
		return err
	}
	for i, name := range s.Policies {
		if !slices.Contains(append(BOODSPolicies(), boSettings), name) || slices.Contains(s.Policies[:i], name) {
			return fmt.Errorf("policy %q is unknown or named twice; there are %s", name, strings.Join(append(BOODSPolicies(), boSettings), ", "))
		}
	}
	platform, err := profiles.OpenPlatform(s.Platform)
	if err != nil {
		return err
	}
	for i, name := range s.Shapes {
		shape, err := batched.Open(name)
		if err != nil {
			return err
		}
		if slices.Contains(s.Shapes[:i], name) {
			return fmt.Errorf("shape %q is named twice", name)
		}
		if _, err := shape.System(batched.Conditions{Platform: platform.Cost()}, s.Tokens); err != nil {
			return fmt.Errorf("shape %s: %w", name, err)
		}
	}
	return nil
}

// RunBOODS runs all that the suite has.
func RunBOODS(ctx context.Context, s BOODS) (*BOODSReport, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	labs, err := eachLab(ctx, min(s.Threads, runtime.GOMAXPROCS(0)), s.Shapes, s.Seeds, s.Seed, s.Progress, s.lab)
	if err != nil {
		return nil, err
	}
	r := &BOODSReport{Seed: s.Seed, Platform: s.Platform}
	for _, l := range labs {
		r.Lines = append(r.Lines, l.lines...)
	}
	r.compare()
	r.searches()
	return r, nil
}

// batchLab runs a shape with a seed.
type batchLab struct {
	*BOODS
	ctx        context.Context
	shape      batched.Shape
	seed       uint64
	platform   *profiles.Platform
	conditions batched.Conditions
	system     *scatter.System
	text       string // where sequences are from
	split      *batched.Split
	learn      []bo.Batch
	test       []bo.Batch
	limit      float64 // seconds
	lines      []BOODSLine
}

func (s *BOODS) lab(ctx context.Context, name string, seed uint64) (*batchLab, error) {
	l := &batchLab{BOODS: s, ctx: ctx, seed: seed}
	if err := l.open(name); err != nil {
		return nil, err
	}
	parts := []func() error{l.prediction, l.modes, l.targets, l.overall, l.assumed}
	if len(l.Policies) > 0 {
		parts = []func() error{l.overall}
	}
	for _, part := range parts {
		if err := errors.Join(ctx.Err(), part()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return l, nil
}

// open makes the shape's texts and its system.
func (l *batchLab) open(name string) (err error) {
	if l.shape, err = batched.Open(name); err != nil {
		return err
	}
	if l.platform, err = profiles.OpenPlatform(l.Platform); err != nil {
		return err
	}
	l.conditions = batched.Conditions{Platform: l.platform.Cost()}
	if l.system, err = l.shape.System(l.conditions, l.Tokens); err != nil {
		return err
	}
	t, share := l.Recorded, profiled
	if l.text = "recording"; t == nil || len(t.Layers) != l.shape.Layers || t.Experts != l.shape.Experts || t.TopK != l.shape.TopK {
		l.text = "generated"
		more := batched.Written(l.Test * l.Tokens)
		if t, err = l.shape.Write(l.Sequences+more, l.seed); err != nil {
			return err
		}
		share *= float64(l.Sequences) / float64(l.Sequences+more)
	}
	if l.split, err = t.Split(share, l.Tokens, l.Learn, l.Test, l.seed); err != nil {
		return err
	}
	for _, r := range l.split.Learn {
		came, err := l.split.Table.Real(r)
		if err != nil {
			return err
		}
		l.learn = append(l.learn, bo.Batch{Rows: r, Real: came})
	}
	for _, r := range l.split.Test {
		came, err := l.split.Table.Real(r)
		if err != nil {
			return err
		}
		l.test = append(l.test, bo.Batch{Rows: r, Real: came})
	}
	l.limit = l.Limit * l.lambdaML(l.test[0].Real)
	return nil
}

// lambdaML is the latency of LambdaML's quickest deployment that goes through the store.
func (l *batchLab) lambdaML(loads [][]float64) float64 {
	b := l.system.Serve(ods.LambdaML(l.system, scatter.Indirect), loads)
	return b.Seconds
}

func (l *batchLab) line(part, policy string) BOODSLine {
	return BOODSLine{
		Suite: "bo-ods", Part: part, Shape: l.shape.Name, Policy: policy, Seed: l.seed, Text: l.text, Device: "simulated, " + l.platform.About,
		Platform: l.platform.Name, Tokens: l.Tokens, TopK: l.shape.TopK,
	}
}

func (l *batchLab) add(line BOODSLine) { l.lines = append(l.lines, line) }
