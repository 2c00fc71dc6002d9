package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/internal/textfile"
	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// RecordFlags say what of which texts is recorded.
type RecordFlags struct {
	Texts        []string `help:"Files of texts, one a domain, as FILE or NAME=FILE: plain text with a line <|endoftext|> between documents, .jsonl, or a list in .json; each may be packed (.gz)." placeholder:"FILE"`
	Tokens       int      `default:"6000" help:"About how many tokens of each domain, prompts and answers together." placeholder:"N"`
	PromptTokens int      `default:"192" help:"Most tokens of a prompt." placeholder:"N"`
	AnswerTokens int      `default:"64" help:"Most tokens that are generated after a prompt." placeholder:"N"`
	Wire         string   `default:"bf16" enum:"bf16,f32" help:"Element type of rows between services, as where the recording is used: bf16 or f32." placeholder:"TYPE"`
	Seed         uint64   `default:"1" help:"Seed of the choice of texts and of answers." placeholder:"N"`
	Threads      int      `default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`
}

// RecordCmd writes what a model's gates see and choose on real texts.
type RecordCmd struct {
	cli.KernelsFlag `embed:""`

	Model    string   `help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	Out      string   `required:"" help:"File to write, in the safetensors format." placeholder:"FILE"`
	Inputs   bool     `default:"true" negatable:"" help:"Also write the gates' inputs, which training needs and simulating does not."`
	Features bool     `help:"Also write, of each row and layer, the position of the key that counted most in the attention before the gate (its weights summed over the heads); for grouped-query attention."`
	JSON     bool     `name:"json" help:"Print a JSON object."`
	More     []string `arg:"" optional:"" name:"text" help:"Further files of texts."`

	RecordFlags `embed:""`
}

// Run records and says how much.
func (c *RecordCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	threads, err := up.NewPool(c.Threads)
	if err != nil {
		return err
	}
	defer threads.Close()
	line := e.Progress()
	defer line.Clear()
	s := c.settings(c.More)
	s.Model, s.Pool, s.Inputs, s.Features, s.Progress = m, threads, c.Inputs, c.Features, line.Set
	if err := s.Check(); err != nil {
		return cli.Usage(err)
	}
	if err := cli.TakesFiles("--out", filepath.Dir(c.Out)); err != nil {
		return err
	}
	sum, err := record.Run(ctx, s, c.Out)
	if err != nil {
		return unusable(err)
	}
	line.Clear()
	return cli.Show(e, c.JSON, sum, fmt.Sprintf("%d rows of %d sequences in %s; by domain: %s\n", sum.Rows, sum.Sequences, c.Out, byDomain(sum.Domains)))
}

// unusable marks errors of texts as unusable input.
func unusable(err error) error {
	if errors.Is(err, textfile.ErrTexts) {
		return cli.Usage(err)
	}
	return err
}

// byDomain lists the rows of each.
func byDomain(rows map[string]int) string {
	var all []string
	for _, domain := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, fmt.Sprintf("%s %d", domain, rows[domain]))
	}
	return strings.Join(all, ", ")
}

func (f RecordFlags) settings(more []string) record.Settings {
	return record.Settings{
		Texts: append(f.Texts, more...), Tokens: f.Tokens, PromptTokens: f.PromptTokens, AnswerTokens: f.AnswerTokens,
		Wire: up.ModelFlags{Wire: f.Wire}.WireType(), Seed: f.Seed,
	}
}
