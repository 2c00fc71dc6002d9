package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/prompts"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// SPSCmd looks after stores of past prompts.
type SPSCmd struct {
	Build SPSBuildCmd `cmd:"" help:"Build a store of texts, which the model is run over, or of a recording."`
	Query SPSQueryCmd `cmd:"" help:"Say which rows of which experts a store foretells for prompts."`
	Eval  SPSEvalCmd  `cmd:"" help:"Measure on texts what a store foretells, beside the paper's other ways."`
}

// SPSFrom say of which texts prompts are made. The flags are no variables: other commands have some
// of these names.
type SPSFrom struct {
	cli.KernelsFlag `embed:""`

	Model   string   `env:"-" help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	Prompts []string `env:"-" help:"Files of texts, as FILE or NAME=FILE: plain text with a line <|endoftext|> between documents, .jsonl, or a list in .json; each may be packed (.gz)." placeholder:"FILE"`
	Lines   bool     `env:"-" help:"Each line of a text is a document, but for headings (= … =)."`
	Chars   int      `env:"-" default:"500" help:"Most characters of a prompt." placeholder:"N"`
	Past    int      `env:"-" default:"5000" help:"Most prompts of the past." placeholder:"N"`
	Seed    uint64   `env:"-" default:"1" help:"Seed of the choice of texts and of the store." placeholder:"N"`
	Threads int      `env:"-" default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`
	JSON    bool     `env:"-" name:"json" help:"Print JSON, one object a line."`
}

// SPSStore says what a store is like.
type SPSStore struct {
	Alpha  int `env:"-" default:"15" help:"Similar prompts that a prediction is made of (α)." placeholder:"N"`
	Beta   int `env:"-" default:"150" help:"Most prompts of a leaf of the tree (β)." placeholder:"N"`
	Branch int `env:"-" default:"8" help:"Most children of a node of the tree." placeholder:"N"`
	Leaves int `env:"-" default:"1" help:"Leaves that a search goes through, the nearest first; the paper's goes through one." placeholder:"N"`
}

func (f SPSStore) apply(s *sps.Settings, seed uint64) error {
	s.Alpha, s.Beta, s.Branch, s.Leaves, s.Seed = f.Alpha, f.Beta, f.Branch, f.Leaves, seed
	return s.Check()
}

// SPSBuildCmd builds a store.
type SPSBuildCmd struct {
	SPSFrom `embed:""`

	SPSStore  `embed:""`
	Recording string `env:"-" help:"Recording (switchyard record) whose prompts are taken instead of texts." placeholder:"FILE"`
	Capacity  int    `env:"-" default:"0" help:"Most prompts that the store has, later ones too; the oldest goes for a new one. 0 is no limit." placeholder:"N"`
	Fit       bool   `env:"-" default:"true" negatable:"" help:"Fit the temperature of the softmax to the last tenth of the prompts; without it 1, as printed."`
	Out       string `env:"-" required:"" help:"Store to write." placeholder:"FILE"`
}

// built is what a store is.
type built struct {
	File        string  `json:"file"`
	Model       string  `json:"model"`
	Prompts     int     `json:"prompts"`
	Layers      int     `json:"layers"`
	Experts     int     `json:"experts"`
	Temperature float64 `json:"temperature"`
	Digest      string  `json:"digest"`
}

// withReader gives use a reader of the model's prompts.
func (f *SPSFrom) withReader(ctx context.Context, e *cli.Env, use func(m *model.Model, r *prompts.Reader, line *terminal.Progress) error) (err error) {
	m, err := up.OpenModel(ctx, e, f.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var threads *pool.Pool
	if threads, err = up.NewPool(f.Threads); err != nil {
		return err
	}
	defer threads.Close()
	line := e.Progress()
	defer line.Clear()
	r, err := prompts.Open(m, threads)
	if err != nil {
		return cli.Usage(err)
	}
	return use(m, r, line)
}

func (f *SPSFrom) texts(test int) *prompts.Texts {
	return &prompts.Texts{Files: f.Prompts, Lines: f.Lines, Chars: f.Chars, Past: f.Past, Test: test, Seed: f.Seed}
}

// Run builds and writes.
func (c *SPSBuildCmd) Run(ctx context.Context, e *cli.Env) error {
	if (c.Recording == "") == (len(c.Prompts) == 0) {
		return cli.Usage(errors.New("name either texts with --prompts or a recording with --recording"))
	}
	return c.withReader(ctx, e, func(m *model.Model, r *prompts.Reader, line *terminal.Progress) error {
		set := r.Settings()
		set.Capacity = c.Capacity
		if err := c.apply(&set, c.Seed); err != nil {
			return cli.Usage(err)
		}
		if err := cli.TakesFiles("--out", filepath.Dir(c.Out)); err != nil {
			return err
		}
		past, err := c.past(ctx, r, line)
		if err != nil {
			return err
		}
		store, err := prompts.Build(set, past, c.Fit)
		if err != nil {
			return cli.Usage(err)
		}
		if err := mapfile.WritePrompts(c.Out, store); err != nil {
			return err
		}
		line.Clear()
		b := built{c.Out, m.Hash, store.Len(), store.Layers, store.Experts, store.Temperature, store.Digest()}
		return cli.Show(e, c.JSON, b, fmt.Sprintf("%d prompts of model %.12s in %s: %d layers of %d experts, temperature %v, digest %.12s\n",
			b.Prompts, b.Model, b.File, b.Layers, b.Experts, b.Temperature, b.Digest))
	})
}

// past are the prompts that the store is made of.
func (c *SPSBuildCmd) past(ctx context.Context, r *prompts.Reader, line *terminal.Progress) (all []prompts.Seen, err error) {
	if c.Recording != "" {
		from, err := recording.Open(c.Recording)
		if err != nil {
			return nil, cli.Usage(err)
		}
		defer func() { _ = from.Close() }() // it is only read
		all, err := r.Recorded(from)
		return all, cli.Wrongly(err)
	}
	sets, err := c.texts(0).Sets()
	if err != nil {
		return nil, cli.Usage(err)
	}
	for _, s := range sets {
		some, err := r.Read(ctx, s.Past, false, line.Set)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// SPSQueryCmd asks a store.
type SPSQueryCmd struct {
	SPSFrom `embed:""`

	Store  string `env:"-" required:"" help:"Store to ask (switchyard sps build)." placeholder:"FILE"`
	Prompt string `env:"-" help:"A prompt, beside those of --prompts." placeholder:"TEXT"`
}

// queried is what is foretold of a prompt.
type queried struct {
	Prompt  string      `json:"prompt"` // its beginning
	Tokens  int         `json:"tokens"`
	Similar []float64   `json:"similarities"` // of the prompts that were found
	Rows    [][]float64 `json:"rows"`         // by layer and expert, in prefill
}

// Run prints the rows that each prompt is expected to have.
func (c *SPSQueryCmd) Run(ctx context.Context, e *cli.Env) error {
	return c.withReader(ctx, e, func(m *model.Model, r *prompts.Reader, line *terminal.Progress) error {
		store, err := mapfile.ReadPrompts(c.Store)
		if err == nil {
			err = store.Fits(m.Hash, r.Settings().Layers, r.Settings().Experts)
		}
		if err != nil {
			return cli.Usage(err)
		}
		texts, err := c.asked()
		if err != nil {
			return cli.Usage(err)
		}
		line.Clear()
		for _, text := range texts {
			if ctx.Err() != nil {
				return cli.ErrInterrupted
			}
			ids, err := r.IDs(text)
			if err != nil {
				return cli.Usage(err)
			}
			v, err := r.Vector(ids)
			if err != nil {
				return cli.Usage(err)
			}
			q := queryOf(store, v, len(ids), m.Spec.TopK)
			q.Prompt = firstWords(text)
			if err := cli.Show(e, c.JSON, q, q.String()); err != nil {
				return err
			}
		}
		return nil
	})
}

// asked are the prompts.
func (c *SPSQueryCmd) asked() (texts []string, err error) {
	if c.Prompt != "" {
		texts = append(texts, c.Prompt)
	}
	if len(c.Prompts) > 0 {
		sets, err := c.texts(0).Sets()
		if err != nil {
			return nil, err
		}
		for _, s := range sets {
			texts = append(texts, s.Past...)
		}
	}
	if len(texts) == 0 {
		return nil, errors.New("no prompt is asked for; give --prompt or --prompts")
	}
	return texts, nil
}

// shownChars is how much of a prompt is repeated.
const shownChars = 60

func firstWords(text string) string {
	r := []rune(strings.ReplaceAll(text, "\n", " "))
	return string(r[:min(len(r), shownChars)])
}

// queryOf is what a store foretells for a prompt of so many tokens.
func queryOf(store *sps.Store, v []float32, tokens, topK int) *queried {
	found := store.Search(v)
	q := &queried{Tokens: tokens, Similar: []float64{}}
	for _, f := range found {
		q.Similar = append(q.Similar, f.Score)
	}
	a := store.Foretold(found)
	for l := range store.Layers {
		row := make([]float64, store.Experts)
		for x := range row {
			row[x] = float64(tokens*topK) * float64(a[l*store.Experts+x])
		}
		q.Rows = append(q.Rows, row)
	}
	return q
}

// String is the prediction for people.
func (q *queried) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q: %d tokens, %d similar prompts", q.Prompt, q.Tokens, len(q.Similar))
	if n := len(q.Similar); n > 0 {
		fmt.Fprintf(&b, " (similarity %.3f to %.3f)", q.Similar[0], q.Similar[n-1])
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for l, row := range q.Rows {
		fmt.Fprintf(w, "layer %d", l)
		for _, n := range row {
			fmt.Fprintf(w, "\t%.1f", n)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}

// SPSEvalCmd measures.
type SPSEvalCmd struct {
	SPSFrom `embed:""`

	SPSStore `embed:""`
	Test     int  `env:"-" default:"500" help:"Most prompts that are foretold, of documents of their own." placeholder:"N"`
	Pairs    bool `env:"-" default:"true" negatable:"" help:"Also say how similarity and divergence of all pairs hang together."`
}

// Run prints a line for each set and way.
func (c *SPSEvalCmd) Run(ctx context.Context, e *cli.Env) error {
	return c.withReader(ctx, e, func(_ *model.Model, r *prompts.Reader, line *terminal.Progress) error {
		set := r.Settings()
		if err := c.apply(&set, c.Seed); err != nil {
			return cli.Usage(err)
		}
		if c.Test < 1 {
			return cli.Usage(fmt.Errorf("--test is %d; it must be 1 or more", c.Test))
		}
		sets, err := c.texts(c.Test).Sets()
		if err != nil {
			return cli.Usage(err)
		}
		for _, s := range sets {
			if err := c.evaluate(ctx, e, r, set, s, line); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *SPSEvalCmd) evaluate(ctx context.Context, e *cli.Env, r *prompts.Reader, set sps.Settings, s prompts.Set, line *terminal.Progress) error {
	past, err := r.Read(ctx, s.Past, false, line.Set)
	if err != nil {
		return err
	}
	test, err := r.Read(ctx, s.Test, true, line.Set)
	if err != nil {
		return err
	}
	line.Set("foretelling %d prompts of %s…", len(test), s.Name)
	lines, err := prompts.Evaluate(ctx, s.Name, set, past, test)
	if err != nil {
		return err
	}
	line.Clear()
	for _, l := range lines {
		if err := cli.Show(e, c.JSON, l, l.String()); err != nil {
			return err
		}
	}
	if !c.Pairs {
		return nil
	}
	p := prompts.Compare(s.Name, set, past, test)
	return cli.Show(e, c.JSON, p, p.String())
}
