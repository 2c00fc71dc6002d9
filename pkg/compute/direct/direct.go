// Package direct runs requests through the layers by direct calls, without a
// message. It is the oracle of the pipeline, which must give the same bits,
// and the baseline of what messages cost.
package direct

import (
	"context"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Runner runs batches of sequences. One goroutine uses it.
type Runner struct {
	step     forward.Step
	local    *forward.Local
	backbone *forward.Backbone
	task     model.Task
	steps    int64
	kv       *kvcache.Pool
	choose   sampling.Batch
	rows     []forward.Row
	most     int // rows that are computed at once; 0: any number
	first    int // position of the first row under way
}

// Settings of a runner.
type Settings struct {
	Wire         tensor.Wire
	MaxPositions int
	// KVBytes is the memory for keys and values; 0 is all that a device has for them.
	KVBytes int64
	// Rows is the most that are computed at once, but for encoders; 0 is any number.
	Rows int
	// On computes; the CPU does what it leaves out.
	On Parts
	// Routed hears of what gates see and choose; see forward.Local. It may be nil.
	Routed func(layer int, x []float32, routes *forward.Routes) error
	// Redirect may change what gates chose; see forward.Local. It may be nil.
	Redirect func(layer int, x []float32, routes *forward.Routes) error
	// AllRows has the last layer compute rows whose output nobody needs, too, as where Routed or Redirect see them.
	AllRows bool
	// Clock takes the time of the last step's parts; it may be nil.
	Clock *forward.Clock
}

// Parts are what a model is computed by; nil: the CPU.
type Parts struct {
	Backbone *forward.Backbone
	Gates    forward.Gates
	Experts  forward.Experts // all of them are loaded
}

// LoadError is of weights that could not be loaded.
type LoadError struct{ Err error }

func (e *LoadError) Error() string { return e.Err.Error() }

func (e *LoadError) Unwrap() error { return e.Err }

// New loads a whole model, but for what others compute. What fails at that is a *LoadError.
func New(m *model.Model, p *pool.Pool, s Settings) (*Runner, error) {
	on := s.On
	if err := on.load(m, p, s.MaxPositions); err != nil {
		return nil, &LoadError{err}
	}
	kv, err := on.Backbone.NewPool(s.Rows, s.KVBytes)
	if err != nil {
		return nil, err
	}
	local := &forward.Local{Gates: on.Gates, Experts: on.Experts, Wire: s.Wire, Hidden: m.Spec.Hidden, Pool: p, Routed: s.Routed, Redirect: s.Redirect}
	step := forward.Step{Backbone: on.Backbone, MoE: local, Clock: s.Clock, OnlyWanted: !s.AllRows && s.Routed == nil && s.Redirect == nil}
	return &Runner{step: step, local: local, backbone: on.Backbone, task: m.Spec.Task(), kv: kv, most: s.Rows, choose: sampling.Batch{Pool: p}}, nil
}

// KeepStrongest is forward.Step's.
func (r *Runner) KeepStrongest() error { return r.step.KeepStrongest() }

// Strongest is forward.Step's, of the layer that Settings.Routed hears of.
func (r *Runner) Strongest() []int32 { return r.step.Strongest() }

// Residual is forward.Step's, for Settings.Routed and Redirect.
func (r *Runner) Residual() []float32 { return r.step.Residual() }

// load loads what is missing for the CPU.
//
//nolint:contextcheck,nolintlint // a model is loaded whole
func (o *Parts) load(m *model.Model, p *pool.Pool, positions int) (err error) {
	if o.Backbone == nil {
		if o.Backbone, err = forward.LoadBackbone(m, p, positions); err != nil {
			return fmt.Errorf("loading the backbone: %w", err)
		}
	}
	if o.Gates == nil {
		if o.Gates, err = forward.LoadRouter(m, p); err != nil {
			return fmt.Errorf("loading the gates: %w", err)
		}
	}
	if o.Experts != nil {
		return nil
	}
	cpu := device.NewCPU(m, p, device.Settings{})
	if err := device.LoadAll(context.Background(), cpu, m.Spec); err != nil {
		return fmt.Errorf("loading the experts: %w", err)
	}
	o.Experts = cpu
	return nil
}

// First returns the position of the first row of the step under way, for Settings.Routed and Redirect; of
// several sequences it is one's.
func (r *Runner) First() int { return r.first }

// Bound lets steps have no more rows than that from now on, and no more than Settings.Rows.
func (r *Runner) Bound(rows int) {
	if r.most == 0 || rows < r.most {
		r.most = rows
	}
}

// Room returns how many sequences of so many positions have room at a time.
func (r *Runner) Room(positions int) int { return r.kv.Capacity() / r.kv.Need(positions) }

// Sequence is one request on its way.
type Sequence struct {
	IDs    []uint32 // prompt and generated
	Params sampling.Params

	source int
	types  []uint32
	prompt int
	done   int
	long   bool // what is done was computed for a long sequence
	table  *kvcache.Table
}

// Prompt is what a model goes on with, fills or answers.
type Prompt struct {
	IDs []uint32
	// Source is how many of them an encoder reads, Types their segments (or none).
	Source int
	Types  []uint32
}

// Add makes room for a prompt of a decoder and what will be generated.
func (r *Runner) Add(prompt []uint32, maxTokens int, p sampling.Params) (*Sequence, error) {
	return r.AddPrompt(Prompt{IDs: prompt}, maxTokens, p)
}

// AddPrompt makes room for a prompt and what will be generated.
func (r *Runner) AddPrompt(prompt Prompt, maxTokens int, p sampling.Params) (*Sequence, error) {
	n := len(prompt.IDs)
	if !r.reads(prompt) {
		return nil, fmt.Errorf("an encoder is to read %d of %d tokens, which is not what this model does with a prompt", prompt.Source, n)
	}
	table, err := r.kv.Reserve(max(prompt.Source, n-prompt.Source+maxTokens))
	if err != nil {
		return nil, err
	}
	return &Sequence{IDs: slices.Clone(prompt.IDs), Params: p, source: prompt.Source, types: prompt.Types, prompt: n, table: table}, nil
}

// reads reports whether a prompt is one for this model's task.
func (r *Runner) reads(p Prompt) bool {
	switch r.task {
	case model.Continue:
		return p.Source == 0
	case model.Fill:
		return p.Source == len(p.IDs)
	}
	return p.Source > 0 && p.Source < len(p.IDs)
}

// Generated returns what came after the prompt.
func (s *Sequence) Generated() []uint32 { return s.IDs[s.prompt:] }

// Close frees the sequence's memory.
func (s *Sequence) Close() { s.table.Release() }

// Step computes all pending rows of the sequences together and appends one
// token to each.
func (r *Runner) Step(ctx context.Context, seqs []*Sequence) error {
	next := 0 // one row of each sequence has logits, in their order
	return r.forward(ctx, seqs, false, func(rows []int, logits []float32) {
		vocab := len(logits) / len(rows)
		r.choose.Each(len(rows), vocab, func(sampler *sampling.Sampler, i int) {
			s := seqs[next+i]
			c := sampler.Next(logits[i*vocab:(i+1)*vocab], s.Params, s.IDs[s.source:], len(s.IDs)-s.prompt)
			s.IDs = append(s.IDs, c.ID)
		})
		next += len(rows)
	})
}

// Logits computes the pending rows of one sequence and returns their logits
// (rows, V); those that an encoder before a decoder reads have none.
func (r *Runner) Logits(ctx context.Context, s *Sequence) (out []float32, err error) {
	err = r.forward(ctx, []*Sequence{s}, true, func(_ []int, logits []float32) { out = append(out, logits...) })
	return out, err
}

// Rows computes the positions of sequences that are not computed yet, together, and calls use for
// each, in the sequences' order, with its logits (V), which are valid until it returns.
func (r *Runner) Rows(ctx context.Context, seqs []*Sequence, use func(row int, logits []float32)) error {
	next := 0
	return r.forward(ctx, seqs, true, func(rows []int, logits []float32) {
		vocab := len(logits) / len(rows)
		for i := range rows {
			use(next+i, logits[i*vocab:(i+1)*vocab])
		}
		next += len(rows)
	})
}

// Encode computes the rows that an encoder before a decoder reads, and returns
// what it makes of them (rows, D).
func (r *Runner) Encode(ctx context.Context, s *Sequence) (out []float32, err error) {
	if err := r.encode(ctx, []*Sequence{s}); err != nil {
		return nil, err
	}
	for i := range r.rows {
		out = append(out, r.step.Hidden(i)...)
	}
	return out, nil
}

// encode takes what encoders have not read yet through their layers, where a
// decoder follows.
func (r *Runner) encode(ctx context.Context, seqs []*Sequence) error {
	r.rows = r.rows[:0]
	for _, s := range seqs {
		for s.done < s.source && s.source < s.prompt {
			r.rows = append(r.rows, r.row(s, s.done))
			s.done++
		}
	}
	if len(r.rows) == 0 {
		return nil
	}
	r.steps++
	return r.step.Run(ctx, r.rows)
}

func (r *Runner) row(s *Sequence, i int) forward.Row {
	return r.backbone.Row(s.table, s.IDs, i, s.source, s.types)
}

// forward takes the pending rows through the layers and hands on the logits of
// all, or of each sequence's last.
func (r *Runner) forward(ctx context.Context, seqs []*Sequence, all bool, use func(rows []int, logits []float32)) error {
	r.choose.Pool.BeginStep()
	defer r.choose.Pool.EndStep()
	if err := r.encode(ctx, seqs); err != nil {
		return err
	}
	r.rows = r.rows[:0]
	for _, s := range seqs {
		if long := r.backbone.Long(len(s.IDs)); long != s.long {
			s.long, s.done = long, 0
		}
		for ; s.done < len(s.IDs); s.done++ {
			row := r.row(s, s.done)
			row.Logits, row.Long = all || s.done == len(s.IDs)-1, s.long
			r.rows = append(r.rows, row)
		}
	}
	most := r.most
	if most == 0 || r.task == model.Fill { // what an encoder reads is not cut
		most = max(1, len(r.rows))
	}
	for rows := range slices.Chunk(r.rows, most) {
		r.steps++
		r.first = rows[0].Position
		if err := r.step.Run(ctx, rows); err != nil {
			return err
		}
		if err := r.step.Logits(ctx, use); err != nil {
			return err
		}
	}
	return nil
}

// WeightBytes returns how many bytes of weights all steps so far have read.
func (r *Runner) WeightBytes() int64 { return r.steps*r.backbone.Bytes() + r.local.Read() }
