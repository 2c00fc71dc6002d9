package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/switchyard/switchyard/loadtest/chosen"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
	"github.com/switchyard/switchyard/pkg/serverless/batched"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// BayesCmd looks after tables of chosen experts.
type BayesCmd struct {
	Build BayesBuildCmd `cmd:"" help:"Count in a recording which experts rows chose, by token, position and key of attention."`
	Eval  BayesEvalCmd  `cmd:"" help:"Say how far foretold rows of experts are from those of a recording."`
}

// BayesFlags say what is read. They are no variables: other commands have these names for other things.
type BayesFlags struct {
	In    string  `env:"-" required:"" help:"Recording with keys of attention (switchyard record --features)." placeholder:"FILE"`
	Table string  `env:"-" required:"" help:"File of the table." placeholder:"FILE"`
	Share float64 `env:"-" default:"0.95" help:"Share of the recording's sequences that tables are made of; they are measured on the others." placeholder:"RATIO"`
	Seed  uint64  `env:"-" default:"1" help:"Seed of which sequences these are." placeholder:"N"`
	First bool    `env:"-" help:"Count the first expert of each row alone, as if the model were top-1; give it to both build and eval."`
	Model string  `env:"-" help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	JSON  bool    `env:"-" name:"json" help:"Print a JSON object."`
}

// BayesBuildCmd makes a table.
type BayesBuildCmd struct {
	BayesFlags `embed:""`
}

// BayesEvalCmd measures one.
type BayesEvalCmd struct {
	BayesFlags `embed:""`

	Method string `env:"-" help:"Only this one: ${foretelling}; without it all of them." placeholder:"NAME"`
	Tokens int    `env:"-" default:"10240" help:"Rows that are foretold, at most." placeholder:"N"`

	Token *uint32 `env:"-" help:"Instead say how many rows of this token id the table has of each layer's experts." placeholder:"ID"`
}

// builtTable is what is printed of one.
type builtTable struct {
	bayes.Header
	Pairs  int    `json:"pairs"`
	Digest string `json:"digest"`
}

// read opens the model and the recording of it. The model is closed again.
func (f BayesFlags) read(ctx context.Context, e *cli.Env) (t *batched.Texts, spec *model.Spec, err error) {
	if !(f.Share > 0 && f.Share <= 1) {
		return nil, nil, cli.Usage(fmt.Errorf("--share is %v; it must be above 0, and 1 at most", f.Share))
	}
	m, err := up.OpenModel(ctx, e, f.Model)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if t, err = chosen.Read(f.In, m.Spec.Vocab); err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("--in: %w", err))
	}
	if t.Model != m.Hash {
		return nil, nil, cli.Usage(fmt.Errorf("--in: the recording is of the model with hash %.16s, and this one has %.16s; name the recorded model with --model", t.Model, m.Hash))
	}
	if f.First {
		t = t.First()
	}
	return t, &m.Spec, nil
}

// Run counts and writes.
func (c *BayesBuildCmd) Run(ctx context.Context, e *cli.Env) error {
	t, _, err := c.read(ctx, e)
	if err != nil {
		return err
	}
	if err := cli.TakesFiles("--table", filepath.Dir(c.Table)); err != nil {
		return err
	}
	first, _ := t.Parts(c.Share, c.Seed)
	table, err := t.Table(first)
	if err != nil {
		return cli.Usage(fmt.Errorf("--in, of whose %d sequences --share takes %d: %w", len(t.Sequences), len(first), err))
	}
	digest, err := chosen.WriteTable(c.Table, table)
	if err != nil {
		return err
	}
	b := builtTable{table.Header, table.Pairs(), digest}
	return cli.Show(e, c.JSON, b, fmt.Sprintf("%d pairs of %d rows of %d sequences in %s, digest %.16s\n", b.Pairs, b.Rows, b.Samples, c.Table, digest))
}

// Foretold is how right a method is.
type Foretold struct {
	Method     string  `json:"method"`
	Tokens     int     `json:"tokens"`
	Difference float64 `json:"difference_rows"`
	Relative   float64 `json:"prediction_error"`
}

// Run measures.
func (c *BayesEvalCmd) Run(ctx context.Context, e *cli.Env) error {
	methods := bayes.Methods()
	if c.Method != "" {
		m, err := bayes.MethodOf(c.Method)
		if err != nil {
			return cli.Usage(fmt.Errorf("--method: %w", err))
		}
		methods = []bayes.Method{m}
	}
	if c.Tokens < 1 {
		return cli.Usage(fmt.Errorf("--tokens is %d; it must be 1 or more", c.Tokens))
	}
	t, _, err := c.read(ctx, e)
	if err != nil {
		return err
	}
	table, _, err := mapfile.ReadTable(c.Table, t.Model)
	if err != nil {
		return cli.Usage(fmt.Errorf("--table: %w", err))
	}
	if c.Token != nil {
		return c.token(e, table)
	}
	_, rest := t.Parts(c.Share, c.Seed)
	rows := t.Batch(rest, c.Tokens)
	if rows.Len() == 0 {
		return cli.Usage(fmt.Errorf("--share is %v, which leaves no sequences to measure on; lower it", c.Share))
	}
	all, err := foretold(table, methods, rows)
	if err != nil {
		return cli.Usage(err)
	}
	return c.show(e, all)
}

// TokenRows are the rows of a token that each expert of a layer had.
type TokenRows struct {
	Layer int      `json:"layer"`
	Token uint32   `json:"token"`
	Rows  []uint64 `json:"rows"`
}

// token prints how many rows of a token each expert had: with its token alone a row's experts are not known.
func (c *BayesEvalCmd) token(e *cli.Env, table *bayes.Table) error {
	if int(*c.Token) >= table.Vocab {
		return cli.Usage(fmt.Errorf("--token is %d; ids of the model's vocabulary are 0 to %d", *c.Token, table.Vocab-1))
	}
	all := make([]TokenRows, len(table.Layers))
	for l, layer := range table.Layers {
		all[l] = TokenRows{layer, *c.Token, make([]uint64, table.Experts)}
	}
	for _, p := range table.Of([]uint32{*c.Token}) {
		all[p.Layer].Rows[p.Expert] += uint64(p.Count)
	}
	for _, one := range all {
		if err := cli.Show(e, c.JSON, one, fmt.Sprintf("layer %d: %d\n", one.Layer, one.Rows)); err != nil {
			return err
		}
	}
	return nil
}

func foretold(table *bayes.Table, methods []bayes.Method, rows *bayes.Rows) (all []Foretold, err error) {
	frequency, err := bayes.NewFrequency(table.Vocab, rows.Tokens)
	if err != nil {
		return nil, err
	}
	came, err := table.Real(rows)
	if err != nil {
		return nil, err
	}
	for _, m := range methods {
		by, err := bayes.New(table, m, frequency)
		if err != nil {
			return nil, err
		}
		loads, err := by.Loads(rows)
		if err != nil {
			return nil, err
		}
		one := Foretold{Method: m.Name, Tokens: rows.Len()}
		one.Difference, one.Relative = bayes.Difference(came, loads)
		all = append(all, one)
	}
	return all, nil
}

// show prints a line for each method.
func (c *BayesEvalCmd) show(e *cli.Env, all []Foretold) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "METHOD\tTOKENS\tROWS WRONG OF AN EXPERT\tBY THE MEAN LOAD")
	for _, one := range all {
		if c.JSON {
			if err := cli.Show(e, true, one, ""); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f %%\n", one.Method, one.Tokens, one.Difference, 100*one.Relative)
	}
	w.Flush()
	if c.JSON {
		return nil
	}
	return cli.Show(e, false, nil, b.String())
}
