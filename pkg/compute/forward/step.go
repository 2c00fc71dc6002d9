package forward

import (
	"cmp"
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
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

// Encodes reports whether a step's rows are those of an encoder before a decoder.
func Encodes(rows []Row) bool { return len(rows) > 0 && rows[0].Encode }

// Row is row i of a sequence of ids, of which an encoder reads the first source;
// types are their segments, or fewer where the others are 0.
func (t *Backbone) Row(table *kvcache.Table, ids []uint32, i, source int, types []uint32) Row {
	r := Row{Table: table, ID: ids[i], Position: i, Source: source}
	if i < len(types) {
		r.Type = types[i]
	}
	if t.answers() {
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

// Step takes one microbatch after the other through the layers. It takes a lane of its
// backbone's computer when it first runs.
type Step struct {
	Backbone *Backbone
	MoE      MoE
	Watch    Watcher // nil: nobody watches
	// Progress counts each piece of a layer and of the logits; nil: nobody looks.
	Progress *Progress
	Clock    *Clock // nil: nobody looks
	// OnlyWanted leaves out of the last layer what changes no logits, if the CPU computes: MoE has fewer rows of it, or
	// none.
	OnlyWanted bool

	lane     Lane
	rows     []Row
	hidden   []float32
	wanted   []int // rows that want logits
	narrowed bool  // the lane has those alone, by now
	compact  []int // of places
}

// Run takes rows through all layers; Logits is what comes of it. Rows of one
// sequence must be in the order of their positions, and all positions before
// them must be in the cache. What an encoder reads of a sequence comes in one
// step. Where a decoder follows, a step is the encoder's or the decoder's: Encode
// is the same of all rows.
func (s *Step) Run(ctx context.Context, rows []Row) error {
	s.Clock.begin()
	s.rows = rows
	s.want()
	if err := s.takeLane(); err != nil {
		return err
	}
	err := s.layers(ctx)
	hidden, ended := s.lane.End()
	if err = cmp.Or(err, ended); err != nil {
		return err
	}
	s.hidden = hidden
	s.Clock.lap(Attention)
	s.eachSequence(func(t *kvcache.Table, _, end int) { t.Span(end, end) })
	return nil
}

func (s *Step) want() {
	s.wanted, s.narrowed = s.wanted[:0], false
	for i, r := range s.rows {
		if r.Logits {
			s.wanted = append(s.wanted, i)
		}
	}
}

func (s *Step) takeLane() (err error) {
	if s.lane == nil {
		s.lane, err = s.Backbone.on.Lane(s.Progress)
	}
	return err
}

func (s *Step) layers(ctx context.Context) error {
	s.eachSequence((*kvcache.Table).Span)
	if err := s.lane.Begin(s.rows); err != nil {
		return err
	}
	s.Clock.lap(Embedding)
	first, end := s.span()
	for l := first; l < end; l++ {
		if err := s.layer(ctx, l); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
	}
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

// span returns the layers that the step's rows pass.
func (s *Step) span() (first, end int) {
	spec := &s.Backbone.spec
	switch {
	case !s.Backbone.answers():
		return 0, spec.Layers
	case Encodes(s.rows):
		return 0, spec.EncoderLayers
	}
	return spec.EncoderLayers, spec.Layers
}

func (s *Step) layer(ctx context.Context, l int) error {
	ctx, end := s.begin(ctx, "layer", l)
	defer end()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.narrow(l)
	_, endAttention := s.begin(ctx, "attention", l)
	in, err := s.lane.Attend(l)
	endAttention()
	if err != nil {
		return err
	}
	s.Clock.lap(Attention)
	if s.narrowed && len(s.wanted) == 0 {
		return nil
	}
	if s.Backbone.spec.Layer[l].MoE {
		return s.experts(ctx, l, in)
	}
	err = s.lane.Dense(l)
	s.Clock.lap(Dense)
	return err
}

// experts has the routed and the shared experts of a layer compute x.
func (s *Step) experts(ctx context.Context, l int, x []float32) error {
	pending, err := s.MoE.Start(ctx, l, x)
	if err != nil {
		return err
	}
	s.Clock.lap(Waiting)
	if s.Backbone.spec.Layer[l].Shared.Width > 0 {
		if err := s.lane.Shared(l); err != nil {
			return err
		}
		s.Clock.lap(Shared)
	}
	if err := pending.Wait(ctx, s.lane.Block()); err != nil {
		return err
	}
	s.Clock.lap(Waiting)
	return s.lane.Combine(l)
}

// Hidden returns what the last Run made of a row (D) that an encoder before a decoder
// reads, valid until the next one.
func (s *Step) Hidden(row int) []float32 {
	d := s.Backbone.spec.Hidden
	return s.hidden[row*d : (row+1)*d]
}

// Logits calls use for the rows of the last Run that want logits, in their
// order and as many at once as there is memory for, with their indexes (n) and their
// logits (n, V), which are valid, and use's to change, until it returns.
func (s *Step) Logits(ctx context.Context, use func(rows []int, logits []float32)) error {
	vocab := s.Backbone.spec.Vocab
	for rows, places := s.wanted, s.places(); len(rows) > 0; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("logits: %w", err)
		}
		logits, err := s.lane.Logits(places)
		if err != nil {
			return fmt.Errorf("logits: %w", err)
		}
		s.Clock.lap(Head)
		n := len(logits) / vocab
		use(rows[:n], logits)
		s.Progress.Tick()
		s.Clock.lap(Sampling)
		rows, places = rows[n:], places[n:]
	}
	return nil
}

func (s *Step) begin(ctx context.Context, part string, layer int) (context.Context, func()) {
	if s.Watch == nil {
		return ctx, func() {}
	}
	return s.Watch.Begin(ctx, part, layer)
}
