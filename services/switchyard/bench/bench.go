package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/switchyard/switchyard/kernels/ceiling"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// BenchCmd measures what messages cost: the pipeline's tokens a second beside
// those of the same layers by direct calls, in turns.
type BenchCmd struct {
	Model        string  `help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	Synthetic    string  `help:"Random weights in the shape of a model instead: mixtral-1b or tiny." placeholder:"NAME"`
	Batch        []int   `default:"1,8,32" help:"Sequences decoded together; several are measured one after the other." placeholder:"N,..."`
	Grouping     string  `default:"planner" enum:"planner,expert" help:"Experts of one function: planner (all of a layer) or expert (one each)." placeholder:"KIND"`
	Wire         string  `default:"bf16" enum:"bf16,f32" help:"Element type of rows between services: bf16 or f32." placeholder:"TYPE"`
	Hops         string  `default:"unacked" enum:"acked,unacked,core" help:"How tensors travel: acked, unacked or core." placeholder:"KIND"`
	Threads      int     `default:"0" help:"Threads that compute, on both sides; 0 is one a core." placeholder:"N"`
	Microbatches int     `default:"2" help:"Microbatches in flight at once." placeholder:"N"`
	MinRows      int     `default:"0" help:"Fewest answer tokens a step for which another microbatch is used; 0 is by the size of a layer." placeholder:"N"`
	Rounds       int     `default:"5" help:"Turns of direct and pipeline; the medians count." placeholder:"N"`
	Seconds      float64 `default:"1" help:"About how many seconds a turn of either takes." placeholder:"S"`
	Breakdown    bool    `help:"Also measure the other kinds of hops, and tell what a step's time goes to."`
	JSON         bool    `name:"json" help:"Print one JSON object a batch size."`
}

// benchResult is one batch size's figures; the device is cpu.
type benchResult struct {
	Model     string  `json:"model"`
	Batch     int     `json:"batch"`
	Grouping  string  `json:"grouping"`
	Wire      string  `json:"wire"`
	Hops      string  `json:"hops"`
	Device    string  `json:"device"`
	Pipeline  float64 `json:"pipeline_tokens_per_s"`
	Direct    float64 `json:"direct_tokens_per_s"`
	Ratio     float64 `json:"ratio"`
	Bandwidth float64 `json:"direct_bandwidth_ratio"`
	Flops     float64 `json:"direct_flops_ratio"`
	// Prefill is the direct path's tokens a second on prompts of 512, and its share of the FMA ceiling.
	Prefill      float64 `json:"direct_prefill_tokens_per_s"`
	PrefillFlops float64 `json:"direct_prefill_flops_ratio"`

	Parts []part `json:"breakdown,omitempty"`
}

// part is a share of a step's time.
type part struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Run measures every batch size.
func (c *BenchCmd) Run(ctx context.Context, e *env) error {
	e.quiet()
	if err := c.check(); err != nil {
		return err
	}
	line := e.progress()
	defer line.Clear()
	line.Set("loading the model…")
	m, err := c.open(e.log)
	if err != nil {
		return err
	}
	b := &bench{cmd: c, env: e, line: line, model: m, pool: pool.New(ModelFlags{Threads: c.Threads}.threads())}
	defer b.pool.Close()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, n := range c.Batch {
		r, err := b.measure(ctx, n)
		if err == nil {
			line.Clear()
			err = b.show(r)
		}
		if err != nil {
			return errors.Join(err, b.close())
		}
	}
	return b.close()
}

func (c *BenchCmd) check() error {
	switch {
	case c.Model != "" && c.Synthetic != "":
		return usage(errors.New("--model and --synthetic exclude each other"))
	case c.Rounds < 1 || !(c.Seconds > 0):
		return usage(errors.New("--rounds and --seconds must be above 0"))
	}
	for _, n := range c.Batch {
		if n < 1 || n > maxBatch {
			return usage(fmt.Errorf("--batch has %d; it must be 1 to %d", n, maxBatch))
		}
	}
	return nil
}

// maxBatch is what a replica takes by default.
const maxBatch = 256

func (c *BenchCmd) open(log *slog.Logger) (*model.Model, error) {
	if c.Synthetic == "" {
		return ModelFlags{Model: c.Model}.open(log)
	}
	m, err := model.Synthetic(c.Synthetic, benchSeed)
	if err != nil {
		return nil, usage(err)
	}
	return m, nil
}

const benchSeed = 1

// bench is a loaded model on both sides, and the machine's ceilings.
type bench struct {
	cmd   *BenchCmd
	env   *env
	line  *progress
	model *model.Model
	pool  *pool.Pool

	direct    *directSide
	pipeline  *pipelineSide
	bandwidth float64 // bytes a second
	flops     float64 // float32 operations a second, all threads
	prefill   float64 // tokens a second
}

func (b *bench) prepare(ctx context.Context) (err error) {
	b.line.Set("measuring the machine…")
	b.bandwidth = ceiling.Bandwidth(int(min(b.model.Bytes, 1<<30)), b.pool.Threads())
	b.flops = ceiling.FMA() * float64(b.pool.Threads())
	b.line.Set("loading the direct path…")
	if b.direct, err = newDirectSide(b.model, b.pool, b.cmd.Wire); err != nil {
		return err
	}
	if b.prefill, err = b.direct.prefill(ctx); err != nil {
		return err
	}
	b.line.Set("starting the pipeline…")
	b.pipeline, err = b.cmd.openPipeline(ctx, b.env, b.model, b.cmd.Hops)
	return err
}

func (b *bench) close() error {
	if b.pipeline == nil {
		return nil
	}
	return b.pipeline.close()
}

// measure takes turns, so that a machine that changes its speed changes both.
func (b *bench) measure(ctx context.Context, batch int) (*benchResult, error) {
	tokens, err := b.tokens(ctx, batch)
	if err != nil {
		return nil, err
	}
	var direct, pipeline, ratios, bytes []float64
	for i := range b.cmd.Rounds {
		b.line.Set("batch %d: turn %d of %d, %d tokens a sequence…", batch, i+1, b.cmd.Rounds, tokens)
		runtime.GC()
		d, err := b.direct.decode(ctx, batch, tokens)
		if err != nil {
			return nil, err
		}
		runtime.GC()
		p, err := b.pipeline.decode(ctx, batch, tokens)
		if err != nil {
			return nil, err
		}
		direct, pipeline = append(direct, d.rate), append(pipeline, p)
		ratios, bytes = append(ratios, p/d.rate), append(bytes, d.bytesPerSecond)
	}
	r := &benchResult{
		Model: b.pipeline.name, Batch: batch, Grouping: b.cmd.Grouping, Wire: b.cmd.Wire, Hops: b.cmd.Hops, Device: "cpu",
		Pipeline: median(pipeline), Direct: median(direct), Ratio: median(ratios), Bandwidth: median(bytes) / b.bandwidth,
		Prefill: b.prefill,
	}
	r.Flops = r.Direct * b.flopsPerToken(benchPrompt+tokens/2) / b.flops
	r.PrefillFlops = b.prefill * b.flopsPerToken(benchPrefill/2) / b.flops
	if b.cmd.Breakdown {
		r.Parts, err = b.breakdown(ctx, batch, tokens, r)
	}
	return r, err
}

// flopsPerToken is what a token takes behind a context of so many: two for each
// weight that it uses, four for each element of the queries and position.
func (b *bench) flopsPerToken(context int) float64 {
	spec := &b.model.Spec
	return 2*float64(spec.Parameters().ActiveWithoutInput) + 4*float64(spec.Layers*spec.Heads*spec.HeadDim*context)
}

// tokens is how many a turn generates for each sequence: about Seconds' worth
// for the direct path, as far as the context reaches.
func (b *bench) tokens(ctx context.Context, batch int) (int, error) {
	probe, err := b.direct.decode(ctx, batch, minTokens)
	if err != nil {
		return 0, err
	}
	n := int(b.cmd.Seconds * probe.rate / float64(batch))
	return min(max(n, minTokens), b.direct.maxTokens()), nil
}

// minTokens is the fewest that a turn measures.
const minTokens = 8

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func (b *bench) show(r *benchResult) error {
	if b.cmd.JSON {
		return writeJSON(b.env, r)
	}
	_, err := fmt.Fprintf(b.env.out, "%s  batch %d  grouping %s  wire %s  hops %s  cpu: pipeline %.0f tokens/s, direct %.0f, ratio %.2f; direct reads at %.2f of the machine's bandwidth and computes at %.2f of its FMA peak (prefill of 512: %.0f tokens/s, %.2f)\n",
		r.Model, r.Batch, r.Grouping, r.Wire, r.Hops, r.Pipeline, r.Direct, r.Ratio, r.Bandwidth, r.Flops, r.Prefill, r.PrefillFlops)
	for _, p := range r.Parts {
		if err == nil {
			_, err = fmt.Fprintf(b.env.out, "    %-44s %8.0f µs a step\n", p.Name, p.Seconds*1e6)
		}
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// since is how long ago in seconds.
func since(t time.Time) float64 { return time.Since(t).Seconds() }
