package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/switchyard/switchyard/loadtest/chosen"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// TuneCmd tunes a table by what its plans cost.
type TuneCmd struct {
	BayesFlags `embed:""`

	Out         string        `env:"-" help:"File of the tuned table; without it --table with .tuned behind it. The search is beside it, with .search behind that, and goes on from there." placeholder:"FILE"`
	Rounds      int           `env:"-" default:"30" help:"Rounds, at most." placeholder:"N"`
	Pairs       int           `env:"-" default:"1000" help:"Keys of the table whose values a round changes." placeholder:"N"`
	Acquisition string        `env:"-" default:"multi" enum:"multi,single,random,tpe" help:"How they are chosen: multi (an ε for each), single (one ε), random or tpe." placeholder:"NAME"`
	Method      string        `env:"-" default:"bayes" help:"How rows are foretold: ${foretelling}." placeholder:"NAME"`
	Batches     int           `env:"-" default:"1" help:"Batches that are learnt on." placeholder:"N"`
	Tokens      int           `env:"-" default:"10240" help:"Tokens of a batch." placeholder:"N"`
	Rental      string        `env:"-" name:"profile" default:"lambda" help:"Serverless platform: ${platforms}, or a file of one." placeholder:"NAME"`
	Limit       time.Duration `env:"-" default:"1h" help:"Most time of a batch from the first layer to the last." placeholder:"TIME"`
}

// tunedTable is what is printed.
type tunedTable struct {
	Out     string  `json:"out"`
	Digest  string  `json:"digest"`
	Rounds  int     `json:"rounds"`
	Before  float64 `json:"cost_before"`
	Cost    float64 `json:"cost"`
	Stopped bool    `json:"stopped"` // before all rounds: the cost moved no more
	Seconds float64 `json:"round_seconds"`
}

// Run searches, and writes the best table and how far the search is.
func (c *TuneCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.Rounds < 1 || c.Tokens < 1 || c.Batches < 1 || c.Limit <= 0 {
		return cli.Usage(fmt.Errorf("--rounds is %d, --tokens %d, --batches %d and --limit %v; all must be above 0", c.Rounds, c.Tokens, c.Batches, c.Limit))
	}
	out := cmp.Or(c.Out, c.Table+".tuned")
	if err := cli.TakesFiles("--out", filepath.Dir(out)); err != nil {
		return err
	}
	problem, of, err := c.problem(ctx, e)
	if err != nil {
		return err
	}
	set := bo.Default()
	set.Acquisition, set.Q, set.Seed = bo.Acquisition(c.Acquisition), c.Pairs, c.Seed
	set.Alpha = 0.01 * float64(c.Tokens*problem.Table.TopK) / float64(problem.Table.Experts)
	if err := set.Check(); err != nil {
		return cli.Usage(fmt.Errorf("--pairs: %w", err))
	}
	state, err := chosen.ReadSearch(out+".search", of)
	if err != nil {
		return cli.Usage(err)
	}
	var s *bo.Search
	if state != nil {
		s, err = bo.Resume(problem, *state)
	} else {
		s, err = bo.New(problem, set)
	}
	if err != nil {
		return c.refused(err)
	}
	return c.search(ctx, e, s, out, of)
}

// refused marks errors of input as that, and limits that no plan keeps.
func (c *TuneCmd) refused(err error) error {
	if errors.Is(err, ods.ErrInfeasible) {
		return &cli.ExitError{Code: cli.ExitInfeasible, Err: err}
	}
	if errors.Is(err, bo.ErrSettings) || errors.Is(err, bayes.ErrTable) || errors.Is(err, scatter.ErrSystem) {
		return cli.Usage(err)
	}
	return err
}

// search goes on until the cost has stopped moving, all rounds are done or a signal comes, and writes
// after each round.
func (c *TuneCmd) search(ctx context.Context, e *cli.Env, s *bo.Search, out, of string) error {
	line := e.Progress()
	defer line.Clear()
	began, first := time.Now(), len(s.Trials)
	for len(s.Trials)-1 < c.Rounds && !s.Done() && ctx.Err() == nil {
		line.Set("round %d of %d: $%.6f, before $%.6f…", len(s.Trials), c.Rounds, s.Best().Cost, s.Trials[0].Cost)
		if err := s.Step(); err != nil {
			return c.refused(err)
		}
		if err := chosen.WriteSearch(out+".search", of, &s.State); err != nil {
			return err
		}
	}
	line.Clear()
	table, err := s.Tuned()
	if err != nil {
		return err
	}
	r := tunedTable{Out: out, Rounds: len(s.Trials) - 1, Before: s.Trials[0].Cost, Cost: s.Best().Cost, Stopped: s.Done()}
	r.Seconds = time.Since(began).Seconds() / float64(max(1, len(s.Trials)-first))
	if r.Digest, err = chosen.WriteTable(out, table); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return cli.Show(e, c.JSON, r, fmt.Sprintf("$%.6f a batch after %d rounds of %.2f s, $%.6f before (%+.2f %%); %s, digest %.16s\n",
		r.Cost, r.Rounds, r.Seconds, r.Before, 100*(r.Cost/r.Before-1), out, r.Digest))
}

// problem is what is learnt on, and what tells it from others.
func (c *TuneCmd) problem(ctx context.Context, e *cli.Env) (*bo.Problem, string, error) {
	method, err := bayes.MethodOf(c.Method)
	if err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--method: %w", err))
	}
	t, spec, err := c.read(ctx, e)
	if err != nil {
		return nil, "", err
	}
	table, digest, err := mapfile.ReadTable(c.Table, t.Model)
	if err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--table: %w", err))
	}
	system, _, err := up.RentedBy(spec, "--profile", c.Rental, c.Tokens)
	if err != nil {
		return nil, "", cli.Usage(err)
	}
	split, err := t.Split(c.Share, c.Tokens, c.Batches, 1, c.Seed)
	if err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--in: %w", err))
	}
	p := &bo.Problem{Table: table, Method: method, Frequency: split.Frequency, System: system, Plan: func(loads [][]float64) (*scatter.Plan, error) {
		r, err := ods.ODS(system, loads, c.Limit.Seconds(), ods.Default())
		if err != nil {
			return nil, err
		}
		return &r.Plan, nil
	}}
	for _, rows := range split.Learn {
		came, err := table.Real(rows)
		if err != nil {
			return nil, "", cli.Usage(err)
		}
		p.Batches = append(p.Batches, bo.Batch{Rows: rows, Real: came})
	}
	of := fmt.Sprintf("%s, %s, %v of it, %d pairs by %s and %s, %d batches of %d tokens on %s in %v, seed %d",
		digest, filepath.Base(c.In), c.Share, c.Pairs, c.Method, c.Acquisition, c.Batches, c.Tokens, c.Rental, c.Limit, c.Seed)
	return p, of, nil
}
