package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/internal/textfile"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// BatchSolving are the flags of a plan for a batch.
type BatchSolving struct {
	Table  string        `env:"-" help:"Table of chosen experts (switchyard bayes build, or tune) that foretells rows." placeholder:"FILE"`
	Text   string        `env:"-" help:"Text of the batch: plain text with a line <|endoftext|> between documents, .jsonl or .json; may be packed (.gz)." placeholder:"FILE"`
	Rental string        `env:"-" name:"profile" default:"lambda" help:"Serverless platform: ${platforms}, or a file of one." placeholder:"NAME"`
	Limit  time.Duration `env:"-" help:"Most time of the batch from the first layer to the last." placeholder:"TIME"`
	Solver string        `env:"-" default:"ods" enum:"ods,exact" help:"ods, the algorithm of the paper, or exact, the cheapest plan." placeholder:"NAME"`
	Method string        `env:"-" default:"bayes" help:"How rows are foretold: ${foretelling}." placeholder:"NAME"`
	Tokens int           `env:"-" default:"10240" help:"Tokens of the batch, at most: the first of the text." placeholder:"N"`
	Apply  bool          `env:"-" help:"Also have the running model planned so: each expert is a function with this plan's transfers, minibatches, memory and replicas, which stays until settings of plans change. Hosts of up --policy bo-ods take its time."`
}

// batchSolved is what is printed of a batch's plan.
type batchSolved struct {
	Policy   string `json:"policy"`
	Solver   string `json:"solver"`
	Platform string `json:"platform"`
	Device   string `json:"device"`
	Foretold string `json:"foretold_by"`
	Tokens   int    `json:"tokens"`
	Feasible bool   `json:"feasible"`
	// Planning are milliseconds, without prediction.
	Planning float64 `json:"planning_ms"`
	Limit    float64 `json:"limit_seconds"`
	// Cost and Requests are dollars of memory, and of invocations and the store.
	Cost     float64 `json:"cost"`
	Requests float64 `json:"requests_cost"`
	GBs      float64 `json:"gb_seconds"`
	Latency  float64 `json:"latency_seconds"`
	// Gap is how much the plan may be above the cheapest, as a part of that; of ODS, which has no bound, it is missing.
	Gap    *float64      `json:"gap,omitempty"`
	Layers []LayerSolved `json:"layers,omitempty"`
	// Of a limit that no plan keeps: the least that one keeps, and the layer that takes most of it. Of
	// rows that fit nowhere there is none.
	Least        float64 `json:"least_limit_seconds,omitempty"`
	Binding      *int    `json:"binding_layer,omitempty"`
	LayerSeconds float64 `json:"binding_layer_seconds,omitempty"`
}

// LayerSolved is a layer's plan.
type LayerSolved struct {
	Mode    string           `json:"mode"`
	Beta    int              `json:"beta,omitempty"`
	Seconds float64          `json:"latency_seconds"`
	Experts []FunctionSolved `json:"experts"`
}

// FunctionSolved is an expert's function with the rows that are foretold for it.
type FunctionSolved struct {
	Rows float64 `json:"rows"`
	scatter.Function
}

// batch plans a batch. A limit that cannot be kept is printed as such, and is exit code 3.
func (c *PlanSolveCmd) batch(ctx context.Context, e *cli.Env) error {
	if err := c.ofBatch(); err != nil {
		return cli.Usage(err)
	}
	out, system, loads, of, err := c.foretellBatch(ctx, e)
	if err != nil {
		return err
	}
	solver := ods.ODS
	if c.Solver == "exact" {
		solver = ods.Exact
	}
	began := time.Now()
	r, err := solver(system, loads, c.Limit.Seconds(), ods.Default())
	out.Planning = 1e3 * time.Since(began).Seconds()
	switch {
	case errors.Is(err, ods.ErrInfeasible):
		return c.unkept(e, out, err)
	case err != nil:
		return cli.Usage(err)
	}
	out.fill(system, loads, r)
	if err := cli.Show(e, c.JSON, out, out.text()); err != nil || !c.Apply {
		return err
	}
	return c.deploy(ctx, e, of, &r.Plan, loads)
}

// ofBatch refuses flags of requests, and wants those of a batch.
func (c *PlanSolveCmd) ofBatch() error {
	if name, err := cli.Changed(&c.RequestFlags, &RequestFlags{}); err != nil || name != "" {
		return errors.Join(err, fmt.Errorf("--%s is of --policy remoe; leave it out", name))
	}
	switch {
	case c.Table == "" || c.Text == "":
		return errors.New("--table or --text is missing: --policy bo-ods needs --table, --text and --limit")
	case c.Limit <= 0:
		return fmt.Errorf("--limit is %v; give one above 0", c.Limit)
	case c.Tokens < 1 || c.Tokens > 1<<20:
		return fmt.Errorf("--tokens is %d; it must be 1 to %d", c.Tokens, 1<<20)
	}
	return nil
}

// foretellBatch reads the text and foretells its rows.
func (c *PlanSolveCmd) foretellBatch(ctx context.Context, e *cli.Env) (out *batchSolved, system *scatter.System, loads [][]float64, of deployed, err error) {
	method, err := bayes.MethodOf(c.Method)
	if err != nil {
		return nil, nil, nil, of, cli.Usage(fmt.Errorf("--method: %w", err))
	}
	if method.Attention {
		return nil, nil, nil, of, cli.Usage(fmt.Errorf("--method %s takes keys of attention for known, which nobody knows of a text before it is computed; take another one", c.Method))
	}
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return nil, nil, nil, of, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	table, _, err := mapfile.ReadTable(c.Table, m.Hash)
	if err != nil {
		return nil, nil, nil, of, cli.Usage(fmt.Errorf("--table: %w", err))
	}
	rows, err := textRows(m, c.Text, c.Tokens)
	if err != nil {
		return nil, nil, nil, of, cli.Usage(fmt.Errorf("--text: %w", err))
	}
	system, platform, err := up.RentedBy(&m.Spec, "--profile", c.Rental, rows.Len())
	if err != nil {
		return nil, nil, nil, of, cli.Usage(err)
	}
	frequency, err := bayes.NewFrequency(table.Vocab, rows.Tokens)
	if err != nil {
		return nil, nil, nil, of, cli.Usage(fmt.Errorf("--text: %w", err))
	}
	by, err := bayes.New(table, method, frequency)
	if err != nil {
		return nil, nil, nil, of, cli.Usage(fmt.Errorf("--table: %w", err))
	}
	if loads, err = by.Loads(rows); err != nil {
		return nil, nil, nil, of, cli.Wrongly(err)
	}
	id, err := deployment.ModelIdentity(m)
	return &batchSolved{
		Policy: c.Policy, Solver: c.Solver, Platform: platform.Name, Device: "simulated, " + platform.About, Tokens: rows.Len(), Limit: c.Limit.Seconds(),
		Foretold: fmt.Sprintf("%s with a table of %d rows", c.Method, table.Rows),
	}, system, loads, deployed{m.Name, id.Model, deployment.MoELayers(m), m.Spec.Experts}, err
}

// textRows returns the first tokens of a text, each document from position 0 on.
func textRows(m *model.Model, path string, most int) (*bayes.Rows, error) {
	documents, err := textfile.Read(path)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Open(m.File)
	if err != nil {
		return nil, err
	}
	r := &bayes.Rows{}
	for _, text := range documents {
		if r.Len() == most {
			break
		}
		ids, err := tok.EncodePrompt(text, false)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(ids) && r.Len() < most; i++ {
			r.Tokens, r.Positions = append(r.Tokens, ids[i]), append(r.Positions, uint32(i%m.Spec.MaxPositions))
		}
	}
	if r.Len() == 0 {
		return nil, fmt.Errorf("%s has no tokens; give a text", path)
	}
	return r, nil
}

// unkept is the answer where no plan keeps the limit.
func (c *PlanSolveCmd) unkept(e *cli.Env, out *batchSolved, err error) error {
	var no *ods.Infeasible
	if errors.As(err, &no) {
		out.Least, out.Binding, out.LayerSeconds = no.Least, &no.Layer, no.LayerSeconds
	}
	if c.JSON {
		if err := cli.Show(e, true, out, ""); err != nil {
			return err
		}
	}
	return &cli.ExitError{Code: cli.ExitInfeasible, Err: err}
}

// fill adds a plan.
func (s *batchSolved) fill(system *scatter.System, loads [][]float64, r *ods.Result) {
	bill := system.Serve(&r.Plan, loads)
	s.Feasible, s.Cost, s.Requests, s.GBs, s.Latency = true, bill.Cost, bill.Requests, bill.GBs, bill.Seconds
	if gap := r.Gap(); !math.IsInf(gap, 0) {
		s.Gap = &gap
	}
	for l, one := range r.Plan.Layers {
		layer := LayerSolved{Mode: one.Mode.String(), Beta: one.Beta, Seconds: bill.Layers[l]}
		for i, f := range one.Experts {
			layer.Experts = append(layer.Experts, FunctionSolved{loads[l][i], f})
		}
		s.Layers = append(s.Layers, layer)
	}
}

// text returns a plan for people.
func (s *batchSolved) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tokens on %s (%s), foretold by %s; planned by %s in %.1f ms\n", s.Tokens, s.Platform, s.Device, s.Foretold, s.Solver, s.Planning)
	fmt.Fprintf(&b, "cost $%.3g of memory (%.1f GB·s) and $%.3g of requests; %.2f s of %.2f", s.Cost, s.GBs, s.Requests, s.Latency, s.Limit)
	if s.Gap != nil {
		fmt.Fprintf(&b, "; at most %.2f %% above the cheapest plan", 100**s.Gap)
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LAYER\tTRANSFER\tMINIBATCH\tLATENCY\tEXPERTS: ROWS, MEMORY, REPLICAS")
	for l, one := range s.Layers {
		beta := "-"
		if one.Beta > 0 {
			beta = fmt.Sprint(one.Beta)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%.2f s\t%s\n", l, one.Mode, beta, one.Seconds, functionsText(one.Experts))
	}
	w.Flush()
	return b.String()
}

// functionsText lists a layer's functions, those alike together.
func functionsText(all []FunctionSolved) string {
	type alike struct {
		scatter.Function
		n    int
		rows float64
	}
	var sets []alike
	for _, f := range all {
		at := len(sets)
		for i, s := range sets {
			if s.Function == f.Function {
				at = i
			}
		}
		if at == len(sets) {
			sets = append(sets, alike{Function: f.Function})
		}
		sets[at].n, sets[at].rows = sets[at].n+1, sets[at].rows+f.Rows
	}
	text := make([]string, len(sets))
	for i, s := range sets {
		text[i] = fmt.Sprintf("%d of %.0f MB × %d with %.0f rows", s.n, s.Memory/(1<<20), s.Replicas, s.rows)
	}
	return strings.Join(text, ", ")
}
