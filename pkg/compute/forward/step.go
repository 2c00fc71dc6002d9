package forward

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Row is one token of a step.
type Row struct {
	Table    *kvcache.Table
	ID       uint32
	Position int
	// Logits says that the row's logits are wanted.
	Logits bool
}

// MoE computes the routed experts of a layer for x (R, D). Start may return
// before the result is there; x stays untouched until Wait has returned.
type MoE interface {
	Start(ctx context.Context, layer int, x []float32) (Pending, error)
}

// Pending is a layer's routed experts at work.
type Pending interface {
	// Wait fills out (R, D).
	Wait(ctx context.Context, out []float32) error
}

// Watcher follows a step's parts, for traces. Begin returns what ends the part.
type Watcher interface {
	Begin(ctx context.Context, part string, layer int) (context.Context, func())
}

// Step is the state of one microbatch in its way through the layers. It is
// reused; one step at a time.
type Step struct {
	Backbone *Backbone
	MoE      MoE
	Watch    Watcher // nil: nobody watches
	// Progress counts each piece of a layer and of the logits; nil: nobody looks.
	Progress *Progress
	Clock    *Clock // nil: nobody looks

	rows                 []Row
	x, norm, qkv, attn   []float32
	block, shared, inner []float32
	wanted               []int // rows that want logits
	atOnce               int   // logits; 0 is logitsAtOnce
	logits               []float32
}

// Run takes rows through all layers; Logits is what comes of it. Rows of one
// sequence must be in the order of their positions, and all positions before
// them must be in the cache.
func (s *Step) Run(ctx context.Context, rows []Row) error {
	s.Clock.begin()
	s.prepare(rows)
	s.Clock.lap(Embedding)
	for l := range s.Backbone.layers {
		if err := s.layer(ctx, l); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
	}
	return nil
}

// logitsAtOnce bounds the logits that are in memory: 64 MiB, which holds a batch
// of answer tokens of any usual vocabulary, so that each slice's read of the LM
// head's weights is shared by many rows.
const logitsAtOnce = 16 << 20

// Logits calls each for the rows of the last Run that want logits, in their
// order, with the row's index and its logits (V), which are valid, and each's
// to change, until it returns.
func (s *Step) Logits(ctx context.Context, each func(row int, logits []float32)) error {
	s.wanted = s.wanted[:0]
	for i, r := range s.rows {
		if r.Logits {
			s.wanted = append(s.wanted, i)
		}
	}
	for rows := range slices.Chunk(s.wanted, max(1, cmp.Or(s.atOnce, logitsAtOnce)/s.Backbone.head.N)) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("logits: %w", err)
		}
		s.lmHead(rows)
		s.Clock.lap(Head)
		for i, row := range rows {
			each(row, s.logits[i*s.Backbone.head.N:(i+1)*s.Backbone.head.N])
			s.Progress.Tick()
		}
		s.Clock.lap(Sampling)
	}
	return nil
}

func (s *Step) workers() workers { return workers{s.Backbone.p, s.Progress} }

func (s *Step) prepare(rows []Row) {
	t, n := s.Backbone, len(rows)
	d := t.spec.Hidden
	s.rows = rows
	s.x, s.norm = tensor.Resize(s.x, n*d), tensor.Resize(s.norm, n*d)
	s.block, s.shared = tensor.Resize(s.block, n*d), tensor.Resize(s.shared, n*d)
	s.qkv = tensor.Resize(s.qkv, n*(t.spec.Heads+2*t.spec.KVHeads)*t.spec.HeadDim)
	s.attn = tensor.Resize(s.attn, n*t.spec.Heads*t.spec.HeadDim)
	for i, r := range rows {
		t.embed.row(s.x[i*d:(i+1)*d], r.ID)
	}
}

func (s *Step) begin(ctx context.Context, part string, layer int) (context.Context, func()) {
	if s.Watch == nil {
		return ctx, func() {}
	}
	return s.Watch.Begin(ctx, part, layer)
}

func (s *Step) layer(ctx context.Context, l int) error {
	ctx, end := s.begin(ctx, "layer", l)
	defer end()
	if err := ctx.Err(); err != nil {
		return err
	}
	_, endAttention := s.begin(ctx, "attention", l)
	s.attention(l)
	endAttention()
	s.Clock.lap(Attention)
	tl := &s.Backbone.layers[l]
	if tl.dense != nil {
		s.feed(tl.dense, s.block)
		cpu.Add(s.x, s.block)
		s.Clock.lap(Dense)
		return nil
	}
	pending, err := s.MoE.Start(ctx, l, s.norm)
	if err != nil {
		return err
	}
	s.Clock.lap(Waiting)
	if tl.shared != nil {
		s.sharedExpert(tl)
		s.Clock.lap(Shared)
	}
	if err := pending.Wait(ctx, s.block); err != nil {
		return err
	}
	s.Clock.lap(Waiting)
	if tl.shared != nil {
		cpu.Add(s.block, s.shared)
	}
	cpu.Add(s.x, s.block)
	return nil
}

// attention adds the attention block to x and leaves norm = RMSNorm(x) for
// what follows.
func (s *Step) attention(l int) {
	tl, n := &s.Backbone.layers[l], len(s.rows)
	s.normalise(tl.inputNorm)
	matMul(s.workers(), s.qkv, s.norm, n, tl.qkv)
	s.storeKV(l, tl)
	s.attend(l, tl)
	matMul(s.workers(), s.block, s.attn, n, tl.o)
	cpu.Add(s.x, s.block)
	s.normalise(tl.postNorm)
}

func (s *Step) normalise(weight []float32) {
	d := s.Backbone.spec.Hidden
	eachRow(s.workers(), len(s.rows), d, func(from, to int) {
		for r := from; r < to; r++ {
			cpu.RMSNorm(s.norm[r*d:(r+1)*d], s.x[r*d:(r+1)*d], weight, s.Backbone.spec.NormEps)
		}
	})
}

// storeKV adds biases, rotates queries and keys, and writes keys and values.
func (s *Step) storeKV(l int, tl *backboneLayer) {
	sp := &s.Backbone.spec
	eachRow(s.workers(), len(s.rows), 2*(sp.Heads+2*sp.KVHeads)*sp.HeadDim, func(from, to int) {
		for i := from; i < to; i++ {
			s.storeRow(i, l, tl)
		}
	})
}

func (s *Step) storeRow(i, l int, tl *backboneLayer) {
	sp, r := &s.Backbone.spec, s.rows[i]
	c, width := sp.HeadDim, (sp.Heads+2*sp.KVHeads)*sp.HeadDim
	row := s.qkv[i*width : (i+1)*width]
	if tl.qkvBias != nil {
		cpu.Add(row, tl.qkvBias)
	}
	cos, sin := s.Backbone.rotation(r.Position)
	for h := range sp.Heads + sp.KVHeads {
		cpu.RoPE(row[h*c:(h+1)*c], cos, sin)
	}
	k, v := row[sp.Heads*c:], row[(sp.Heads+sp.KVHeads)*c:]
	for g := range sp.KVHeads {
		r.Table.Store(l, g, r.Position, k[g*c:(g+1)*c], v[g*c:(g+1)*c])
	}
}

func (t *Backbone) rotation(position int) (cos, sin []float32) {
	half := t.spec.HeadDim / 2
	at := position * half
	return t.cos[at : at+half], t.sin[at : at+half]
}

func (s *Step) attend(l int, tl *backboneLayer) {
	sp := &s.Backbone.spec
	last := s.rows[len(s.rows)-1].Position + 1
	nanos := sp.Heads * sp.HeadDim * last * 4 / flopsPerNano
	eachRow(s.workers(), len(s.rows), nanos, func(from, to int) {
		scratch := s.Backbone.scratches.get()
		for r := from; r < to; r++ {
			s.attendRow(r, l, tl.window, scratch)
		}
		s.Backbone.scratches.put(scratch)
	})
}

func (s *Step) attendRow(i, l, window int, scratch *attendScratch) {
	sp, r := &s.Backbone.spec, s.rows[i]
	heads := cpu.Heads{KV: sp.KVHeads, Group: sp.Heads / sp.KVHeads, Dim: sp.HeadDim}
	q := s.qkv[i*(sp.Heads+2*sp.KVHeads)*sp.HeadDim:]
	out := s.attn[i*sp.Heads*sp.HeadDim:]
	end, start := r.Position+1, 0
	if window > 0 {
		start = max(0, end-window)
	}
	scratch.floats = tensor.Resize(scratch.floats, cpu.AttendScratch(heads, end))
	scratch.pages = r.Table.Layer(scratch.pages[:0], l, end)
	scale := float32(1 / math.Sqrt(float64(sp.HeadDim)))
	cpu.Attend(out, q, heads, scratch.pages, start, end, scale, scratch.floats)
}

func (s *Step) feed(f *ffn, dst []float32) {
	n := len(s.rows)
	s.inner = tensor.Resize(s.inner, f.floatsFor(n))
	f.run(s.workers(), dst, s.norm, n, s.inner)
}

// sharedExpert fills shared (R, D), scaled by its sigmoid gate.
func (s *Step) sharedExpert(tl *backboneLayer) {
	s.feed(tl.shared, s.shared)
	n, d := len(s.rows), s.Backbone.spec.Hidden
	gate := tensor.Resize(s.inner, n)
	cpu.MatMul(gate, 1, s.norm, d, n, tl.sharedGate, 0, tl.sharedGate.Panels())
	for r := range n {
		cpu.Scale(s.shared[r*d:(r+1)*d], cpu.Sigmoid(gate[r]))
	}
}

// lmHead fills logits (len(rows), V).
func (s *Step) lmHead(rows []int) {
	t, d := s.Backbone, s.Backbone.spec.Hidden
	for n, i := range rows {
		cpu.RMSNorm(s.norm[n*d:(n+1)*d], s.x[i*d:(i+1)*d], t.finalNorm, t.spec.NormEps)
	}
	s.logits = tensor.Resize(s.logits, len(rows)*t.head.N)
	matMul(s.workers(), s.logits, s.norm[:len(rows)*d], len(rows), t.head)
}

type attendScratch struct {
	pages  [][]float32
	floats []float32
}

type scratchPool struct{ pool sync.Pool }

func (p *scratchPool) get() *attendScratch {
	if s, ok := p.pool.Get().(*attendScratch); ok {
		return s
	}
	return &attendScratch{}
}

func (p *scratchPool) put(s *attendScratch) { p.pool.Put(s) }
