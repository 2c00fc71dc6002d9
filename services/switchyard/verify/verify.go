package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// VerifyCmd compares a checkpoint, run through the message pipeline, with
// outputs of Hugging Face transformers.
type VerifyCmd struct {
	Dirs []string `arg:"" name:"dir" help:"Model directories with golden.safetensors and golden.json beside the weights."`
	Wire string   `default:"f32" enum:"f32,bf16" help:"Element type of rows between services; bf16 reports and does not judge." placeholder:"TYPE"`
	Hops string   `default:"unacked" enum:"acked,unacked,core" help:"How tensors travel: acked, unacked or core." placeholder:"KIND"`
	JSON bool     `name:"json" help:"Print one JSON object a directory."`
}

// verdict is the result for one directory.
type verdict struct {
	Dir         string  `json:"dir"`
	Pass        bool    `json:"pass"`
	Judged      bool    `json:"judged"`
	MaxAbsDiff  float64 `json:"max_abs_diff"`
	Tolerance   float64 `json:"tolerance"`
	GreedyEqual bool    `json:"greedy_equal"`
	// GreedyCompared is how many ids count: up to the first near tie.
	GreedyCompared int    `json:"greedy_compared"`
	Messages       uint64 `json:"messages"`
}

// Run verifies every directory; one that differs makes the command fail.
func (c *VerifyCmd) Run(ctx context.Context, e *env) error {
	e.quiet()
	failed := false
	for _, dir := range c.Dirs {
		v, err := c.verify(ctx, e, dir)
		if err != nil {
			return fmt.Errorf("verifying %s: %w", dir, err)
		}
		if err := c.show(e, v); err != nil {
			return err
		}
		failed = failed || !v.Pass
	}
	if failed {
		return &exitError{exitFailed, errQuiet}
	}
	return nil
}

func (c *VerifyCmd) show(e *env, v *verdict) error {
	if c.JSON {
		return writeJSON(e, v)
	}
	word := map[bool]string{true: "pass", false: "FAIL"}[v.Pass]
	if !v.Judged {
		word = "seen"
	}
	_, err := fmt.Fprintf(e.out, "%s  %s  logits differ by at most %.3g (tolerance %.3g), greedy ids equal: %v (%d compared), %d messages\n",
		word, v.Dir, v.MaxAbsDiff, v.Tolerance, v.GreedyEqual, v.GreedyCompared, v.Messages)
	if err != nil {
		return fmt.Errorf("writing the verdict: %w", err)
	}
	return nil
}

// verify runs one checkpoint through a pipeline of its own.
func (c *VerifyCmd) verify(ctx context.Context, e *env, dir string) (v *verdict, err error) {
	g, err := readGolden(dir)
	if err != nil {
		return nil, usage(err)
	}
	line := e.progress()
	defer line.Clear()
	line.Set("starting a pipeline for %s…", dir)
	y, err := c.open(ctx, e, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	if err := y.ready(ctx); err != nil {
		return nil, err
	}
	conn, err := y.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	q := &questioner{client: client.New(conn.NATS(), client.Settings{Prefix: e.Prefix, Model: y.settings.node.modelName()}), vocab: y.settings.node.model.Spec.Vocab}
	v = &verdict{Dir: dir, Judged: c.Wire == string(tensor.F32), Tolerance: g.tolerance()}
	line.Set("comparing %s…", dir)
	if err := q.compareLogits(ctx, g, v); err != nil {
		return nil, err
	}
	if err := q.compareGreedy(ctx, g, v); err != nil {
		return nil, err
	}
	v.Messages = y.messages()
	v.Pass = !v.Judged || v.MaxAbsDiff <= v.Tolerance && v.GreedyEqual
	return v, nil
}

func (c *VerifyCmd) open(ctx context.Context, e *env, dir string) (*cluster, error) {
	up := UpCmd{}
	if err := fillDefaults(&up); err != nil {
		return nil, err
	}
	up.Listen, up.ModelFlags.Model, up.Wire, up.Hops = "", dir, c.Wire, c.Hops
	settings, err := up.settings(ctx, e)
	if err != nil {
		return nil, err
	}
	return openCluster(ctx, settings)
}

// messages is how many messages the cluster's services have published and received.
func (y *cluster) messages() (n uint64) {
	for _, c := range y.pipeline.connections() {
		n += c.NATS().Stats().OutMsgs
	}
	return n
}

// questioner asks a pipeline what the golden file has the answers to.
type questioner struct {
	client *client.Client
	vocab  int
}

// logits are those of all positions of ids, (positions, vocab).
func (q *questioner) logits(ctx context.Context, ids []uint32) ([]float32, error) {
	none := int32(0)
	chunks, err := q.ask(ctx, &pb.Prompt{InputIds: ids, Score: "logits", MaxTokens: &none})
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(ids)*q.vocab)
	seen := 0
	for _, c := range chunks {
		if c.Score == nil {
			continue
		}
		if int(c.Score.Position) >= len(ids) || len(c.Score.Logits) != q.vocab {
			return nil, fmt.Errorf("the pipeline sent %d logits for position %d", len(c.Score.Logits), c.Score.Position)
		}
		copy(out[int(c.Score.Position)*q.vocab:], c.Score.Logits)
		seen++
	}
	if seen != len(ids) {
		return nil, fmt.Errorf("the pipeline scored %d of %d positions", seen, len(ids))
	}
	return out, nil
}

func (q *questioner) ask(ctx context.Context, p *pb.Prompt) (chunks []*pb.Chunk, err error) {
	p.IgnoreEos = true
	stream, err := q.client.Prompt(ctx, p)
	if err != nil {
		return nil, err
	}
	for c, err := range stream.Chunks() {
		if err != nil {
			return nil, err
		}
		if err := client.Failure(c); err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

func (q *questioner) compareLogits(ctx context.Context, g *golden, v *verdict) error {
	for _, part := range g.parts() {
		got, err := q.logits(ctx, part.ids)
		if err != nil {
			return err
		}
		if len(got) != len(part.logits) {
			return fmt.Errorf("golden logits of %d ids have %d elements, the model makes %d", len(part.ids), len(part.logits), len(got))
		}
		for i := range got {
			d := math.Abs(float64(got[i]) - float64(part.logits[i]))
			if d > v.MaxAbsDiff || math.IsNaN(d) {
				v.MaxAbsDiff = d
			}
		}
	}
	if math.IsNaN(v.MaxAbsDiff) {
		v.MaxAbsDiff = math.MaxFloat64 // JSON has no NaN
	}
	return nil
}

// compareGreedy compares the ids that greedy decoding chooses.
func (q *questioner) compareGreedy(ctx context.Context, g *golden, v *verdict) error {
	prompt, want := g.greedy[:g.GreedyPrompt], g.greedy[g.GreedyPrompt:]
	n := int32(len(want))
	chunks, err := q.ask(ctx, &pb.Prompt{InputIds: prompt, MaxTokens: &n})
	if err != nil {
		return err
	}
	var got []uint32
	for _, c := range chunks {
		got = append(got, c.TokenIds...)
	}
	if v.GreedyCompared, err = q.decided(ctx, prompt, want, g); err != nil {
		return err
	}
	v.GreedyEqual = len(got) == len(want) && slices.Equal(got[:v.GreedyCompared], want[:v.GreedyCompared])
	return nil
}

// nearTie is the margin of the two best logits under which either may win.
const nearTie = 1e-3

// decided is how many of the wanted ids come before the first near tie.
func (q *questioner) decided(ctx context.Context, prompt, want []uint32, g *golden) (int, error) {
	if g.SmallestGreedyMargin >= nearTie {
		return len(want), nil
	}
	logits, err := q.logits(ctx, slices.Concat(prompt, want))
	if err != nil {
		return 0, err
	}
	for i := range want {
		row := logits[(len(prompt)+i-1)*q.vocab:][:q.vocab]
		if margin(row) < nearTie {
			return i, nil
		}
	}
	return len(want), nil
}

// margin is how far the best logit is above the second.
func margin(row []float32) float32 {
	first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for _, x := range row {
		if x > first {
			first, second = x, first
		} else if x > second {
			second = x
		}
	}
	return first - second
}
