package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/serverless/promptvector"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// PlanSolveCmd plans experts as functions of a serverless platform, without a server. Its flags are no
// variables: other commands have some of these names.
type PlanSolveCmd struct {
	Policy string `env:"-" default:"remoe" enum:"remoe,bo-ods" help:"Who decides: remoe, for one request, or bo-ods, for a batch of tokens." placeholder:"NAME"`
	Model  string `env:"-" help:"Hugging Face model directory whose tokenizer counts the prompt or text and whose embeddings --store is asked with; without it the demo model in this binary." placeholder:"DIR"`
	JSON   bool   `env:"-" name:"json" help:"Print a JSON object."`

	RequestFlags     `embed:"" group:"--policy remoe:"`
	BatchSolving     `embed:"" group:"--policy bo-ods:"`
	cli.ConnectFlags `embed:""`
}

// RequestFlags are of a plan for one request.
type RequestFlags struct {
	Shape     string        `env:"-" help:"Shape of the model: ${rented_shapes}." placeholder:"NAME"`
	TTFT      time.Duration `env:"-" name:"slo-ttft" help:"Most time to the first token, from a cold start." placeholder:"TIME"`
	TPOT      time.Duration `env:"-" name:"slo-tpot" help:"Most time of each token after it, in the mean." placeholder:"TIME"`
	MaxTokens int           `env:"-" default:"200" help:"Tokens that the answer may have." placeholder:"N"`
	Prompt    *string       `env:"-" help:"The request's prompt." placeholder:"TEXT"`
	Store     string        `env:"-" help:"Store of similar prompts (switchyard sps build) that foretells the experts; without it they are those of generated texts, in the mean." placeholder:"FILE"`
	Tokenizer string        `env:"-" help:"The shape's tokenizer, which counts the prompt in place of the model's: folder or file, as of switchyard tokenize." placeholder:"PATH"`
	Platform  string        `env:"-" default:"kubernetes" help:"Serverless platform: ${platforms}, or a file of one." placeholder:"NAME"`
	Curves    string        `env:"-" help:"Times of an expert by memory (switchyard profile) instead of the platform's processors." placeholder:"FILE"`
	Sizes     string        `env:"-" name:"memory" help:"Memory sizes that functions can have, in MB, as 200:2000:100 or a list; without it the shape's." placeholder:"MB,..."`
	MainSizes string        `env:"-" name:"main-memory" help:"Memory sizes that the main model's host can have, in MB; without it the shape's." placeholder:"MB,..."`
	Replicas  *int          `env:"-" help:"Most replicas of a function; without it the shape's." placeholder:"N"`
	Payload   *float64      `env:"-" help:"Most bytes of an invocation; without it the platform's." placeholder:"BYTES"`
	Price     float64       `env:"-" name:"gpu-price" default:"3" help:"Price of GPU memory, as a multiple of that of hosts." placeholder:"TIMES"`
	Seed      uint64        `env:"-" default:"1" help:"Seed of generated texts." placeholder:"N"`
	Exact     bool          `env:"-" help:"Also find the cheapest plan there is, if the request does as is foretold."`
	Explain   bool          `env:"-" help:"Say how each part was decided, and what the baselines would take."`
}

// solved is what is printed.
type solved struct {
	Policy   string `json:"policy"`
	Shape    string `json:"shape"`
	Platform string `json:"platform"`
	Device   string `json:"device"`
	Foretold string `json:"foretold_by"`
	Counted  string `json:"counted_by"` // the prompt's tokens
	// Planning are the milliseconds of deciding, without prediction and without --exact.
	Planning float64 `json:"planning_ms"`
	*rented.Solution
}

// Run plans. An SLO that cannot be kept is printed as such, and is exit code 3.
func (c *PlanSolveCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.Policy == plan.ForBatches {
		return c.batch(ctx, e)
	}
	if err := c.ofRequest(); err != nil {
		return cli.Usage(err)
	}
	q, out, err := c.question(ctx, e)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := remoe.Decide(q.System, q.Request, q.Activation, rented.Settled()); err != nil && !errors.Is(err, remoe.ErrInfeasible) && !errors.Is(err, remoe.ErrSizes) {
		return cli.Usage(err)
	}
	out.Planning = 1e3 * time.Since(began).Seconds()
	if out.Solution, err = rented.Solve(*q); err != nil {
		return cli.Usage(err)
	}
	if out.Feasible {
		return cli.Show(e, c.JSON, out, c.text(out))
	}
	if c.JSON {
		if err := cli.Show(e, true, out, ""); err != nil {
			return err
		}
	}
	return &cli.ExitError{Code: cli.ExitInfeasible, Err: c.refusal(out)}
}

// ofRequest refuses flags of batches, and wants those of a request.
func (c *PlanSolveCmd) ofRequest() error {
	if name, err := cli.Changed(&c.BatchSolving, &BatchSolving{}); err != nil || name != "" {
		return errors.Join(err, fmt.Errorf("--%s is of --policy bo-ods; leave it out", name))
	}
	for name, missing := range map[string]bool{"shape": c.Shape == "", "prompt": c.Prompt == nil} {
		if missing {
			return fmt.Errorf("--%s is missing: --policy remoe needs --shape, --slo-ttft, --slo-tpot and --prompt", name)
		}
	}
	return nil
}

// question returns what the flags ask, and what is printed of it.
func (c *PlanSolveCmd) question(ctx context.Context, e *cli.Env) (_ *rented.Question, _ *solved, err error) {
	shape, err := rented.Open(c.Shape)
	if err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("--shape: %w", err))
	}
	if c.MaxTokens < 1 {
		return nil, nil, cli.Usage(fmt.Errorf("--max-tokens is %d; an answer has 1 token or more", c.MaxTokens))
	}
	if c.TTFT <= 0 || c.TPOT <= 0 {
		return nil, nil, cli.Usage(fmt.Errorf("--slo-ttft is %v and --slo-tpot %v; both must be above 0", c.TTFT, c.TPOT))
	}
	system, platform, err := c.system(shape)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	asked, err := c.ask(ctx, e, shape)
	if err != nil {
		return nil, nil, err
	}
	if asked.tokens+c.MaxTokens > shape.Context {
		return nil, nil, cli.Usage(fmt.Errorf("the prompt has %d tokens and --max-tokens is %d; shape %s has room for %d together: shorten one", asked.tokens, c.MaxTokens, shape.Name, shape.Context))
	}
	q := &rented.Question{
		System: system, Activation: asked.activation, Exact: c.Exact,
		Request: remoe.Request{
			Most: max(asked.tokens, min(shape.Context, len(*c.Prompt))), Prompt: asked.tokens, Output: c.MaxTokens - 1,
			SLO: serverless.SLO{TTFT: c.TTFT.Seconds(), TPOT: c.TPOT.Seconds()}, Decided: rented.Decided,
		},
	}
	return q, &solved{Policy: c.Policy, Shape: shape.Name, Platform: platform.Name, Device: "simulated, A100 and " + platform.About, Foretold: asked.by, Counted: asked.counted}, nil
}

// system returns the shape on what is rented, with what flags change of both.
func (c *PlanSolveCmd) system(shape rented.Shape) (*serverless.System, *profiles.Platform, error) {
	platform, err := profiles.OpenPlatform(c.Platform)
	if err != nil {
		return nil, nil, fmt.Errorf("--platform: %w", err)
	}
	on := rented.Conditions{Platform: platform.Cost(), Ratio: c.Price, Replicas: c.Replicas, Payload: c.Payload}
	if on.Functions, err = cli.Megabytes("memory", c.Sizes); err != nil {
		return nil, nil, err
	}
	if on.Main, err = cli.Megabytes("main-memory", c.MainSizes); err != nil {
		return nil, nil, err
	}
	if c.Curves != "" {
		if on.Speeds, err = mapfile.ReadCurves(c.Curves); err != nil {
			return nil, nil, fmt.Errorf("--curves: %w", err)
		}
	}
	system, err := shape.System(on)
	return system, platform, err
}

// asked is a prompt with what is foretold of it, and by what.
type asked struct {
	tokens     int
	counted    string
	activation []float32
	by         string
}

// ask counts the prompt's tokens and foretells its experts.
func (c *PlanSolveCmd) ask(ctx context.Context, e *cli.Env, shape rented.Shape) (a asked, err error) {
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	threads, err := up.NewPool(0)
	if err != nil {
		return a, err
	}
	defer threads.Close()
	r, err := promptvector.Open(m, threads)
	if err != nil {
		return a, cli.Usage(err)
	}
	ids, err := r.IDs(*c.Prompt)
	if err != nil {
		return a, cli.Usage(fmt.Errorf("--prompt: %w", err))
	}
	if err := c.count(&a, len(ids), m.Name); err != nil {
		return a, cli.Usage(err)
	}
	if c.Store == "" {
		a.by = fmt.Sprintf("the mean of %d generated prompts", rented.Typical)
		a.activation, err = shape.Typical(c.Seed)
		return a, cli.Wrongly(err)
	}
	store, err := mapfile.ReadPrompts(c.Store)
	if err == nil {
		err = store.Fits(m.Hash, shape.Layers, shape.Experts)
	}
	if err != nil {
		return a, cli.Usage(fmt.Errorf("--store: %w", err))
	}
	v, err := r.Vector(ids)
	if err != nil {
		return a, cli.Usage(fmt.Errorf("--prompt: %w", err))
	}
	a.by, a.activation = fmt.Sprintf("%d similar prompts of %d in %s", min(store.Alpha, store.Len()), store.Len(), c.Store), store.Predict(v)
	return a, nil
}

// count sets how many tokens the prompt has: by the shape's tokenizer where it is named, else those
// that the model has counted.
func (c *PlanSolveCmd) count(a *asked, tokens int, model string) error {
	a.tokens, a.counted = tokens, "the tokenizer of "+model
	if c.Tokenizer == "" {
		return nil
	}
	t, err := tokenizer.OpenPath(c.Tokenizer, "")
	if err != nil {
		return fmt.Errorf("--tokenizer: %w", err)
	}
	ids, err := t.EncodePrompt(*c.Prompt, false)
	if err != nil {
		return fmt.Errorf("--prompt: %w", err)
	}
	a.tokens, a.counted = max(1, len(ids)), c.Tokenizer
	return nil
}

func (c *PlanSolveCmd) refusal(s *solved) error {
	return &remoe.Infeasible{Limit: s.Constraint, TTFT: s.NearestTTFT, TPOT: s.NearestTPOT}
}

// text returns a plan for people.
func (c *PlanSolveCmd) text(s *solved) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s (%s), foretold by %s\n", s.Shape, s.Platform, s.Device, s.Foretold)
	fmt.Fprintf(&b, "prompt %d tokens by %s (at most %d before they are counted), answer %d; planned in %.1f ms\n", s.Prompt, s.Counted, s.Most, s.Output+1, s.Planning)
	fmt.Fprintf(&b, "cost $%.3g a request, and $%.3g for its start; TTFT %.3g s (%.3g s of it cold), TPOT %.1f ms\n", s.Cost, s.Starting, s.TTFT, s.Start, 1e3*s.TPOT)
	fmt.Fprintf(&b, "main model's host %.0f MB; %.1f %% of experts are functions\n", s.Main/(1<<20), 100*s.Ratio)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LAYER\tREMOTE\tMEMORY\tREPLICAS\tPREFILL ROWS\tDECODE ROWS")
	for l, one := range s.Layers {
		fmt.Fprintf(w, "%d\t%d of them\t%.0f MB\t%d\t%.1f\t%.1f\n", l, len(one.Remote), one.Memory/(1<<20), one.Replicas, one.Prefill, one.Decode)
	}
	w.Flush()
	if s.Exact != nil {
		fmt.Fprintf(&b, "%s: $%.3g; this plan costs %+.1f %% of it\n", s.Exact.Name, s.Exact.Cost, 100*s.Exact.Change)
	}
	for _, l := range s.Limits {
		fmt.Fprintf(&b, "expected to be broken: %s\n", l)
	}
	if c.Explain {
		b.WriteString(howDecided(s))
	}
	return b.String()
}

// howDecided says how the four steps went, and what the baselines take.
func howDecided(s *solved) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nb, w (algorithm 2): in the worst case %.1f %% of experts may leave, with a TTFT of %.3g s and a TPOT of %.1f ms; the next larger share keeps them no more\n",
		100*s.Ratio, s.WorstTTFT, 1e3*s.WorstTPOT)
	fmt.Fprintf(&b, "x (section IV-D): of each layer the experts with the fewest expected rows leave\n")
	z := s.Sizes
	switch {
	case z.Table && s.Ratio > 0:
		fmt.Fprintf(&b, "y: sizes were searched in the table of times, since %s\n", z.Why)
	case s.Ratio > 0:
		fmt.Fprintf(&b, "y (dual of P2): T(y) = %.3g·exp(-%.3g·y) + %.3g s, R² %.3f; convex by theorem 2, Slater's condition %s; λ %.3g, KKT residual %.1g; dual $%.6g ≤ best sizes $%.6g ≤ chosen $%.6g (rounded $%.6g)\n",
			z.Theta1, z.Theta2, z.Theta3, z.R2, map[bool]string{true: "holds", false: "does not hold"}[z.Slater], z.Lambda, z.KKT, z.Dual, z.Best, z.Chosen, z.Rounded)
	default:
		fmt.Fprintf(&b, "y: no expert leaves, so that no function has a size\n")
	}
	most := 0
	for _, l := range s.Layers {
		most = max(most, l.Replicas)
	}
	fmt.Fprintf(&b, "z (theorem 4, eq. 15): up to %d replicas, as payload and TTFT need them and as long as one more makes the request cheaper\n", cmp.Or(most, 1))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BASELINE\tCOST\tTTFT\tTPOT\tKEEPS THE SLO\tTHIS PLAN COSTS")
	for _, o := range s.Baselines {
		fmt.Fprintf(w, "%s\t$%.3g\t%.3g s\t%.1f ms\t%v\t%+.1f %%\n", o.Name, o.Cost, o.TTFT, 1e3*o.TPOT, o.Keeps, 100*o.Change)
	}
	w.Flush()
	return b.String()
}
