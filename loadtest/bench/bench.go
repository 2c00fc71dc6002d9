// Package bench measures what messages cost: the pipeline's tokens a second beside
// those of the same layers by direct calls, in turns.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/kernels/ceiling"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Settings say what is measured, and how long.
type Settings struct {
	Model    *model.Model
	Pool     *pool.Pool
	Grouping string
	Wire     string
	Hops     string
	// Rounds are turns of direct and pipeline, of about so many Seconds each.
	Rounds  int
	Seconds float64
	// Breakdown also tells what a step's time goes to.
	Breakdown bool
	// Stages also tells the time of a step by stage.
	Stages bool
	// Devices hold the model for the direct path, and the experts for both sides; nil: the
	// direct path has its own on the CPU.
	Devices *Devices
	// Prompt is how many tokens prompts have; 0 is PromptLength.
	Prompt int
	// Batches are to be measured: Open fails with *RoomError where one has no room.
	Batches []int
	// Open starts a pipeline of the same model with such hops; Loads, if set, one
	// that tells Kafka of experts' loads, which is then measured beside the other.
	Open, Loads func(ctx context.Context, hops string) (*cluster.Cluster, error)
	// Unkept, if set, opens one whose token logs are kept nowhere but in logs, which is
	// then measured beside the pipeline.
	Unkept func(ctx context.Context, hops string, logs *Unkept) (*cluster.Cluster, error)
	// Apart, if set, starts the services as processes of their own, which are then measured beside the
	// pipeline and the direct path.
	Apart func(ctx context.Context) (*Apart, error)
	// Context is how many tokens a sequence may have; 0 is ContextFor the prompts.
	Context int
	// Heard, if set, hears of the pipeline's steps: MeasureLayer is used, not Measure.
	Heard *LayerTimes
	// Progress hears what is going on.
	Progress func(format string, args ...any)
}

func (s Settings) prompt() int { return cmp.Or(s.Prompt, PromptLength) }

// Result is one batch size's figures.
type Result struct {
	Model    string `json:"model"`
	Batch    int    `json:"batch"`
	Prompt   int    `json:"prompt_tokens"`
	Grouping string `json:"grouping"`
	Wire     string `json:"wire"`
	Hops     string `json:"hops"`
	Names
	Pipeline float64 `json:"pipeline_tokens_per_s"`
	Direct   float64 `json:"direct_tokens_per_s"`
	Ratio    float64 `json:"ratio"`
	// Together is the share of the pipeline's tokens that came while all sequences decode.
	// Where it is less than a quarter, tokens a second are of whole turns, prompts included.
	Together float64 `json:"decoding_together"`
	// First are the times to the first token.
	PipelineFirst FirstToken `json:"pipeline_ttft"`
	DirectFirst   FirstToken `json:"direct_ttft"`
	// Joules is the energy that the GPU took for a token of the pipeline, prompts
	// included; 0 if it is not known.
	Joules float64 `json:"gpu_joules_per_token,omitempty"`
	// The direct path's weights read and operations done in a second, and what shares they
	// are of the processor's ceilings; 0 where a GPU computes experts or attention.
	Read      float64 `json:"direct_weight_bytes_per_s"`
	Done      float64 `json:"direct_flops_per_s"`
	Bandwidth float64 `json:"direct_bandwidth_ratio"`
	Flops     float64 `json:"direct_flops_ratio"`
	// Prefill is the direct path's tokens a second on prompts of PrefillTokens, and its share of the FMA ceiling, and Scored
	// where all positions have logits, so that the last layer computes all rows, too.
	PrefillTokens int     `json:"direct_prefill_tokens"`
	Prefill       float64 `json:"direct_prefill_tokens_per_s"`
	PrefillFlops  float64 `json:"direct_prefill_flops_ratio"`
	Scored        float64 `json:"direct_scored_tokens_per_s"`
	ScoredFlops   float64 `json:"direct_scored_flops_ratio"`

	// Of the pipeline's tensors. A step has so many rows in the mean.
	Rows     float64 `json:"rows_per_step"`
	Messages float64 `json:"messages_per_step"`
	Bytes    float64 `json:"payload_bytes_per_step"`

	Parts  []Part  `json:"breakdown,omitempty"`
	Stages *Stages `json:"stages,omitempty"`
	Loads  *Loads  `json:"loads,omitempty"`
	// Guarantees is what those cost.
	Guarantees *Guarantees `json:"guarantees,omitempty"`
	Processes  *Processes  `json:"processes,omitempty"`
}

// Part is a share of a step's time.
type Part struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Bench is a loaded model on both sides, and the machine's ceilings.
type Bench struct {
	settings Settings

	direct   *directSide
	pipeline *pipelineSide
	machine  machine
	prefill  float64 // tokens a second
	scored   float64 // the same, where all have logits
}

// machine is the processor's ceilings; 0 where it does not compute what takes long.
type machine struct {
	bandwidth float64 // bytes a second
	flops     float64 // float32 operations a second, all threads
}

// machineFor measures with as many bytes as a model has, up to a bound.
func machineFor(m *model.Model, p *pool.Pool) machine {
	return machine{ceiling.Bandwidth(int(min(m.Bytes, 1<<30)), p.Threads()), ceiling.FMA() * float64(p.Threads())}
}

// Open loads both sides, and measures the machine unless who has opened the devices did.
func Open(ctx context.Context, s Settings) (b *Bench, err error) {
	b = &Bench{settings: s}
	if s.Devices != nil {
		b.machine = s.Devices.machine
	} else {
		b.settings.Progress("measuring the machine…")
		b.machine = machineFor(s.Model, s.Pool)
	}
	b.settings.Progress("loading the direct path…")
	if b.direct, err = newDirectSide(b.settings); err != nil {
		return nil, err
	}
	if err := b.direct.checkRoom(b.settings.Batches); err != nil {
		return nil, err
	}
	cluster.BoundGarbage()
	if b.settings.Heard == nil {
		if b.prefill, b.scored, err = b.direct.prompts(ctx, b.settings.Seconds); err != nil {
			return nil, err
		}
		b.direct.bound()
	}
	b.settings.Progress("starting the pipeline…")
	b.pipeline, err = b.openPipeline(ctx, b.settings.Hops)
	return b, err
}

// Close stops the pipeline.
func (b *Bench) Close() error { return b.pipeline.close() }

// Measure takes turns, so that a machine that changes its speed changes both.
func (b *Bench) Measure(ctx context.Context, batch int) (*Result, error) {
	tokens, err := b.tokens(ctx, batch)
	if err != nil {
		return nil, err
	}
	before, err := b.pipeline.read()
	if err != nil {
		return nil, err
	}
	var direct, pipeline, together, ratios, bytes, firsts, directFirsts []float64
	var took energy
	for i := range b.settings.Rounds {
		b.settings.Progress("batch %d: turn %d of %d, %d tokens a sequence…", batch, i+1, b.settings.Rounds, tokens)
		runtime.GC()
		d, err := b.direct.decode(ctx, batch, tokens)
		if err != nil {
			return nil, err
		}
		runtime.GC()
		counter := b.pipeline.energy()
		p, first, err := b.pipeline.timed(ctx, batch, tokens)
		if err != nil {
			return nil, err
		}
		took.count(counter, b.pipeline.energy(), batch*tokens)
		direct, pipeline, together = append(direct, d.rate), append(pipeline, p.rate), append(together, p.together)
		ratios, bytes = append(ratios, p.rate/d.rate), append(bytes, d.bytesPerSecond)
		firsts, directFirsts = append(firsts, first...), append(directFirsts, d.firsts...)
	}
	r := &Result{
		Model: b.pipeline.name, Batch: batch, Prompt: b.settings.prompt(), Grouping: b.settings.Grouping, Wire: b.settings.Wire, Hops: b.settings.Hops, Names: b.pipeline.devices(),
		Pipeline: median(pipeline), Direct: median(direct), Ratio: median(ratios), Together: median(together), Joules: took.perToken(),
		PipelineFirst: firstTokenOf(firsts), DirectFirst: firstTokenOf(directFirsts), Read: median(bytes), PrefillTokens: b.direct.prefillTokens(), Prefill: b.prefill, Scored: b.scored,
	}
	r.Done = r.Direct * b.flopsPerToken(r.Prompt+tokens/2)
	r.Bandwidth, r.Flops = share(r.Read, b.machine.bandwidth), share(r.Done, b.machine.flops)
	r.PrefillFlops = share(b.prefill*b.settings.Model.Spec.PromptFLOPs(r.PrefillTokens)/float64(r.PrefillTokens), b.machine.flops)
	r.ScoredFlops = share(b.scored*b.flopsPerToken(r.PrefillTokens/2), b.machine.flops)
	return r, b.details(ctx, r, before, tokens)
}

// details adds what the pipeline's metrics tell, and what was asked for besides.
func (b *Bench) details(ctx context.Context, r *Result, before readings, tokens int) error {
	after, err := b.pipeline.read()
	if err != nil {
		return err
	}
	gained := after.since(before)
	r.Rows = gained["switchyard_batch_rows_sum"] / gained.steps()
	r.Messages, r.Bytes = gained.traffic()
	if b.settings.Stages {
		if r.Stages, err = b.stages(ctx, r.Batch, tokens); err != nil {
			return err
		}
	}
	if b.settings.Loads != nil {
		if r.Loads, err = b.loads(ctx, r.Batch, tokens); err != nil {
			return err
		}
	}
	if b.settings.Unkept != nil {
		if r.Guarantees, err = b.guarantees(ctx, r.Batch, tokens); err != nil {
			return err
		}
	}
	if b.settings.Apart != nil {
		if r.Processes, err = b.processes(ctx, r.Batch, tokens); err != nil {
			return err
		}
	}
	if b.settings.Breakdown {
		r.Parts, err = b.breakdown(ctx, r.Batch, tokens, r)
	}
	return err
}

// flopsPerToken is what a token takes behind a context of so many: two for each
// weight that it uses, four for each element of the queries and position.
func (b *Bench) flopsPerToken(context int) float64 {
	spec := &b.settings.Model.Spec
	return 2*float64(spec.Parameters().ActiveWithoutInput) + spec.ScoreFLOPs(context)
}

// tokens is how many a turn generates for each sequence, as far as the context reaches:
// about Seconds' worth for the direct path, or more until the pipeline's sequences, whose
// prompts come one after the other, decode together for most of the turn.
func (b *Bench) tokens(ctx context.Context, batch int) (int, error) {
	most, err := b.direct.maxTokens(batch)
	if err != nil {
		return 0, err
	}
	probe, err := b.direct.decode(ctx, batch, minTokens)
	if err != nil {
		return 0, err
	}
	n := max(int(b.settings.Seconds*probe.rate/float64(batch)), minTokens)
	for ; ; n *= 2 {
		n = min(n, most)
		b.settings.Progress("batch %d: trying %d tokens a sequence…", batch, n)
		t, err := b.pipeline.decode(ctx, batch, n)
		if err != nil || t.together >= enoughTogether || n == most {
			return n, err
		}
	}
}

// enoughTogether is the share of a turn's tokens that shall come while all decode.
const enoughTogether = 0.5

// minTokens is the fewest that a turn measures.
const minTokens = 8

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// String is the result for people, with a line for each part of a step's time.
func (r *Result) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s  batch %d  grouping %s  wire %s  hops %s  %s: pipeline %.0f tokens/s, direct %.0f, ratio %.2f; ",
		r.Model, r.Batch, r.Grouping, r.Wire, r.Hops, r.Names, r.Pipeline, r.Direct, r.Ratio)
	if r.onProcessor() {
		fmt.Fprintf(&text, "direct reads at %.2f of the machine's bandwidth and computes at %.2f of its FMA peak (prefill of %d: %.0f tokens/s, %.2f; with logits of all: %.0f, %.2f)\n",
			r.Bandwidth, r.Flops, r.PrefillTokens, r.Prefill, r.PrefillFlops, r.Scored, r.ScoredFlops)
	} else {
		fmt.Fprintf(&text, "direct, on the same devices, reads %.1f GB/s of weights and computes %.2f TFLOP/s (prefill of %d: %.0f tokens/s)\n", r.Read/1e9, r.Done/1e12, r.PrefillTokens, r.Prefill)
	}
	fmt.Fprintf(&text, "    first token of a prompt of %d tokens: pipeline %v, direct %v\n", r.Prompt, r.PipelineFirst, r.DirectFirst)
	fmt.Fprintf(&text, "    %.2f rows, %.1f messages and %.0f payload bytes a step\n", r.Rows, r.Messages, r.Bytes)
	if r.Together < leastTogether {
		text.WriteString("    tokens a second of whole turns, prompts included: the sequences hardly decoded together; --seconds may be too few\n")
	}
	if r.Joules > 0 {
		fmt.Fprintf(&text, "    %.3g J of the GPU a token, what it takes while it waits included\n", r.Joules)
	}
	if r.Stages != nil {
		text.WriteString(r.Stages.String())
	}
	if r.Loads != nil {
		text.WriteString(r.Loads.String())
	}
	if r.Guarantees != nil {
		text.WriteString(r.Guarantees.String())
	}
	if r.Processes != nil {
		text.WriteString(r.Processes.String())
	}
	for _, p := range r.Parts {
		fmt.Fprintf(&text, "    %-44s %8.0f µs a step\n", p.Name, p.Seconds*1e6)
	}
	return text.String()
}

// FirstToken is how long requests waited for their first tokens, all of a batch being
// asked at once.
type FirstToken struct {
	Requests int     `json:"requests"`
	P50      float64 `json:"p50_seconds"`
	P99      float64 `json:"p99_seconds"`
}

func firstTokenOf(seconds []float64) FirstToken {
	slices.Sort(seconds)
	return FirstToken{len(seconds), quantile.Of(seconds, 0.5), quantile.Of(seconds, 0.99)}
}

// String is both quantiles.
func (f FirstToken) String() string {
	return fmt.Sprintf("%.1f ms (p99 %.1f)", f.P50*1e3, f.P99*1e3)
}

func share(of, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return of / whole
}

func since(t time.Time) float64 { return time.Since(t).Seconds() }
