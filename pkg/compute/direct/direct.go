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
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/sampling"
)

// Runner runs batches of sequences. One goroutine uses it.
type Runner struct {
	step     forward.Step
	local    *forward.Local
	backbone *forward.Backbone
	steps    int64
	kv       *kvcache.Pool
	sampler  sampling.Sampler
	rows     []forward.Row
}

// Settings of a runner.
type Settings struct {
	Wire         tensor.Wire
	MaxPositions int
	// KVBytes is the memory for keys and values.
	KVBytes int64
	// Routed hears of what gates see and choose; see forward.Local. It may be nil.
	Routed func(layer int, x []float32, routes *forward.Routes) error
	// Clock takes the time of the last step's parts; it may be nil.
	Clock *forward.Clock
}

// New loads a whole model.
//
//nolint:contextcheck,nolintlint // a model is loaded whole
func New(m *model.Model, p *pool.Pool, s Settings) (*Runner, error) {
	backbone, err := forward.LoadBackbone(m, p, s.MaxPositions)
	if err != nil {
		return nil, fmt.Errorf("loading the backbone: %w", err)
	}
	router, err := forward.LoadRouter(m, p)
	if err != nil {
		return nil, fmt.Errorf("loading the gates: %w", err)
	}
	cpu := device.NewCPU(m, p, device.Settings{})
	if err := device.LoadAll(context.Background(), cpu, m.Spec); err != nil {
		return nil, fmt.Errorf("loading the experts: %w", err)
	}
	kv, err := kvcache.NewPool(backbone.Shape(), s.KVBytes)
	if err != nil {
		return nil, err
	}
	local := &forward.Local{Router: router, Experts: cpu, Wire: s.Wire, Routed: s.Routed}
	return &Runner{step: forward.Step{Backbone: backbone, MoE: local, Clock: s.Clock}, local: local, backbone: backbone, kv: kv}, nil
}

// Sequence is one request on its way.
type Sequence struct {
	IDs    []uint32 // prompt and generated
	Params sampling.Params
	prompt int
	done   int
	long   bool // what is done was computed for a long sequence
	table  *kvcache.Table
}

// Add makes room for a prompt and what will be generated.
func (r *Runner) Add(prompt []uint32, maxTokens int, p sampling.Params) (*Sequence, error) {
	table, err := r.kv.Reserve(len(prompt) + maxTokens)
	if err != nil {
		return nil, err
	}
	return &Sequence{IDs: slices.Clone(prompt), Params: p, prompt: len(prompt), table: table}, nil
}

// Generated is what came after the prompt.
func (s *Sequence) Generated() []uint32 { return s.IDs[s.prompt:] }

// Close frees the sequence's memory.
func (s *Sequence) Close() { s.table.Release() }

// Step computes all pending rows of the sequences together and appends one
// token to each.
func (r *Runner) Step(ctx context.Context, seqs []*Sequence) error {
	next := 0 // one row of each sequence has logits, in their order
	return r.forward(ctx, seqs, false, func(_ int, logits []float32) {
		s := seqs[next]
		next++
		c := r.sampler.Next(logits, s.Params, s.IDs, len(s.IDs)-s.prompt)
		s.IDs = append(s.IDs, c.ID)
	})
}

// Logits computes the pending rows of one sequence and returns their logits (rows, V).
func (r *Runner) Logits(ctx context.Context, s *Sequence) (out []float32, err error) {
	err = r.forward(ctx, []*Sequence{s}, true, func(_ int, logits []float32) { out = append(out, logits...) })
	return out, err
}

// forward takes the pending rows through the layers and hands on the logits of
// all, or of each sequence's last.
func (r *Runner) forward(ctx context.Context, seqs []*Sequence, all bool, each func(row int, logits []float32)) error {
	r.rows = r.rows[:0]
	for _, s := range seqs {
		if long := r.backbone.Long(len(s.IDs)); long != s.long {
			s.long, s.done = long, 0
		}
		for pos := s.done; pos < len(s.IDs); pos++ {
			last := pos == len(s.IDs)-1
			r.rows = append(r.rows, forward.Row{Table: s.table, ID: s.IDs[pos], Position: pos, Logits: all || last, Long: s.long})
		}
		s.done = len(s.IDs)
	}
	r.steps++
	if err := r.step.Run(ctx, r.rows); err != nil {
		return err
	}
	return r.step.Logits(ctx, each)
}

// WeightBytes is how many bytes of weights all steps so far have read.
func (r *Runner) WeightBytes() int64 { return r.steps*r.backbone.Bytes() + r.local.Read() }
