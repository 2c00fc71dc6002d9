package forward

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Row is one token of a step.
type Row struct {
	Table    *kvcache.Table
	ID       uint32
	Position int
	Type     uint32 // its segment, where the model tells segments apart
	// Source is how many positions of the sequence an encoder reads: those that
	// its rows see, and that a decoder's cross attention sees.
	Source int
	// Encode says that the encoder before a decoder reads the row: it has no logits.
	Encode bool
	// Logits says that the row's logits are wanted.
	Logits bool
	// Long says that the sequence is longer than Spec.LongAfter.
	Long bool
}

// Row is row i of a sequence of ids, of which an encoder reads the first source;
// types are their segments, or fewer where the others are 0.
func (t *Backbone) Row(table *kvcache.Table, ids []uint32, i, source int, types []uint32) Row {
	r := Row{Table: table, ID: ids[i], Position: i, Source: source}
	if i < len(types) {
		r.Type = types[i]
	}
	if t.encoder != nil {
		if r.Encode = i < source; !r.Encode {
			r.Position = i - source
		}
	}
	return r
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
	x, norm              []float32
	block, shared, inner []float32
	mixBuffers
	wanted []int // rows that want logits
	atOnce int   // logits; 0 is logitsAtOnce
	logits []float32
}

// Run takes rows through all layers; Logits is what comes of it. Rows of one
// sequence must be in the order of their positions, and all positions before
// them must be in the cache. What an encoder reads of a sequence comes in one
// step. Where a decoder follows, a step is the encoder's or the decoder's: Encode
// is the same of all rows.
func (s *Step) Run(ctx context.Context, rows []Row) error {
	s.Clock.begin()
	s.prepare(rows)
	s.Clock.lap(Embedding)
	first, end := s.span()
	for l := first; l < end; l++ {
		if err := s.layer(ctx, l); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
	}
	if s.encodes() {
		for _, tl := range s.Backbone.layers[end:] {
			if tl.cross != nil {
				tl.cross.remember(s, s.x)
			}
		}
		s.Clock.lap(Attention)
	}
	s.eachSequence(func(t *kvcache.Table, _, end int) { t.Span(end, end) })
	return nil
}

// eachSequence calls f for the rows of each sequence, at positions [from, end).
func (s *Step) eachSequence(f func(t *kvcache.Table, from, end int)) {
	for first, i := 0, 0; i < len(s.rows); i++ {
		if i+1 == len(s.rows) || s.rows[i+1].Table != s.rows[i].Table {
			f(s.rows[i].Table, s.rows[first].Position, s.rows[i].Position+1)
			first = i + 1
		}
	}
}

// encodes says whether the step is that of an encoder before a decoder.
func (s *Step) encodes() bool { return len(s.rows) > 0 && s.rows[0].Encode }

// span is the layers that the step's rows pass.
func (s *Step) span() (first, end int) {
	t := s.Backbone
	switch {
	case s.encodes():
		return 0, t.spec.EncoderLayers
	case t.encoder != nil:
		return t.spec.EncoderLayers, len(t.layers)
	}
	return 0, len(t.layers)
}

// Hidden is what the last Run made of a row (D), valid until the next one.
func (s *Step) Hidden(row int) []float32 {
	d := s.Backbone.spec.Hidden
	return s.x[row*d : (row+1)*d]
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
	for rows := range slices.Chunk(s.wanted, max(1, cmp.Or(s.atOnce, logitsAtOnce)/s.Backbone.head.matrix.N)) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("logits: %w", err)
		}
		s.lmHead(rows)
		s.Clock.lap(Head)
		for i, row := range rows {
			each(row, s.logits[i*s.Backbone.head.matrix.N:(i+1)*s.Backbone.head.matrix.N])
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
	s.eachSequence((*kvcache.Table).Span)
	e := &t.embed
	if s.encodes() {
		e = t.encoder
	}
	e.fill(s.workers(), s.x, rows)
}

func (s *Step) begin(ctx context.Context, part string, layer int) (context.Context, func()) {
	if s.Watch == nil {
		return ctx, func() {}
	}
	return s.Watch.Begin(ctx, part, layer)
}

// feed is dst (R, D) of x (R, D) through a network.
func (s *Step) feed(f *ffn, dst, x []float32) {
	n := len(s.rows)
	s.inner = tensor.Resize(s.inner, f.floatsFor(n))
	f.run(s.workers(), dst, x, n, s.inner)
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
