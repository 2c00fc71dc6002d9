package layer

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// collection is what has come back of the rows of a layer, and what their step has gathered
// so far. Blocks come from other goroutines than the worker's.
type collection struct {
	shape   shape
	counts  *counts
	latency *latency
	each    bool // it is to be known of each dispatch

	whole    chan struct{}
	declined chan struct{} // a signal: who got the newest attempt leaves it to others

	mu      sync.Mutex
	step    uint64
	layer   int
	out     []float32 // (R, D)
	parts   []rowsPart
	missing int
	issued  []time.Time // by attempt; the first is that of Start
	gathered
	decliner string // why the newest host, or gate, declined
	failure  *pb.Error
}

// gathered is what the blocks of a step have told.
type gathered struct {
	layers    []ledger.Layer
	functions []ledger.Function // of the layer that is away
	fates     stepFates
	costs     stepCosts
	curve     stepCurve
}

func newCollection(s shape, n *counts, l *latency, each bool) *collection {
	return &collection{
		shape: s, counts: n, latency: l, each: each, whole: make(chan struct{}, 1), declined: make(chan struct{}, 1),
		gathered: gathered{fates: stepFates{layers: s.layers, slots: s.slots}},
	}
}

// begin begins a step of so many rows. A late block may ask which step it is.
func (c *collection) begin(step uint64, rows int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step, c.layers = step, c.layers[:0]
	c.fates.rows, c.fates.codes, c.fates.omitted = rows, c.fates.codes[:0], false
	c.costs.begin(rows)
	c.curve = stepCurve{sum: c.curve.sum}
}

// prepare awaits so many elements of a layer, and cuts them into parts of so many rows at most, and
// at cuts.
func (c *collection) prepare(layer, elements, limit int, cuts []int) []rowsPart {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.layer, c.functions = layer, c.functions[:0]
	c.out = reuse.Slice(c.out, elements)
	c.parts = split(c.parts[:0], c.rows(), limit, cuts)
	c.missing, c.failure, c.decliner, c.issued = len(c.parts), nil, "", append(c.issued[:0], time.Now())
	for _, old := range []chan struct{}{c.whole, c.declined} {
		select {
		case <-old:
		default:
		}
	}
	return c.parts
}

// ask awaits what the layer's stamp asks of gates, of each part.
func (c *collection) ask(s *pb.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.GetPoints() > 0 {
		c.curve.parts += len(c.parts)
	}
}

// rows is how many the layer has.
func (c *collection) rows() int { return len(c.out) / c.shape.hidden }

func (c *collection) take(b *pb.Block) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.Key.Step != c.step || int(b.Key.Layer) != c.layer || c.missing == 0 {
		return nil
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.first != int(b.Key.Part) || p.arrived {
			continue
		}
		if err := c.fill(p, b); err != nil {
			return err
		}
		if c.missing == 0 {
			c.account(b)
			pause.Wake(c.whole)
		}
	}
	return nil
}

// account writes down where the layer's time went, as its last block tells it:
// that one's group is what the layer has waited for.
func (c *collection) account(b *pb.Block) {
	l, cut := ledger.Join(time.Since(c.issued[0]), b, int(b.Key.Rows)*c.shape.slots)
	l.Each = slices.Clone(c.functions)
	c.layers = append(c.layers, l)
	c.counts.cut(cut)
	at := min(int(b.Key.Attempt), len(c.issued)-1)
	c.latency.observe(c.rows(), &l, c.issued[at].Sub(c.issued[0]))
}

func (c *collection) fill(p *rowsPart, b *pb.Block) error {
	if int(b.Key.Rows) != p.rows {
		return fmt.Errorf("%w: a block of %d rows from row %d, which were sent as %d", wire.ErrMalformed, b.Key.Rows, p.first, p.rows)
	}
	switch {
	case b.Error == nil:
	case b.Error.Code == wire.Elsewhere:
		if c.decliner = b.Error.Message; int(b.Key.Attempt) == len(c.issued)-1 {
			pause.Wake(c.declined)
		}
		return nil
	default:
		c.failure, c.missing = b.Error, 0
		return nil
	}
	if err := cmp.Or(c.fates.check(p, b.Fates), checkCosts(p, b)); err != nil {
		return err
	}
	d := c.shape.hidden
	if err := tensor.Decode(c.out[p.first*d:(p.first+p.rows)*d], b.Tensor, d); err != nil {
		return err
	}
	if c.each {
		c.functions = ledger.Each(c.functions, time.Since(c.issued[0]), b, p.rows*c.shape.slots)
	}
	c.fates.take(c.layer, p, c.rows(), b.Fates)
	c.costs.take(p, c.rows(), b)
	if !c.curve.take(b.GetGate().GetAccesses(), c.shape.experts) {
		c.counts.cut(1)
	}
	p.arrived = true
	c.missing--
	return nil
}

// maxReason bounds, in characters, what is quoted of another service's error.
const maxReason = 1000

// result fills out with a layer's sums when it is whole, and tells where its time went.
func (c *collection) result(out []float32) (*ledger.Layer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return nil, fmt.Errorf("layer %d could not be computed: %.*s", c.layer, maxReason, c.failure.Message)
	}
	copy(out, c.out)
	return &c.layers[len(c.layers)-1], nil
}

// unreturned are the parts that have not come back, which are issued now for the attempt of that number.
func (c *collection) unreturned(attempt uint32) (late []rowsPart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		if !p.arrived {
			late = append(late, p)
		}
	}
	c.issued = append(c.issued[:attempt], time.Now()) // one that could not be sent has the same number
	return late
}

// declining is what was said last by who left rows to others.
func (c *collection) declining() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decliner == "" {
		return ""
	}
	return fmt.Sprintf("; one that had the rows said: %.*s", maxReason, c.decliner)
}

// end has later blocks of the layer change nothing.
func (c *collection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = 0
}

// stepFates gathers what became of the slots of a step's rows, as blocks say it. Usually they
// say nothing, and nothing is kept. The collection's lock guards it.
type stepFates struct {
	layers []int // of the model that have experts
	slots  int

	rows    int
	codes   []wire.FateCode // (rows, layers, slots); none: all had their own experts
	stood   []stood         // of each row
	omitted bool            // they are not whole
}

// stood is which united experts stood in for a row's.
type stood struct {
	way    uint32
	bundle uint64
}

func (f *stepFates) check(p *rowsPart, of *pb.Fates) error {
	if err := wire.CheckFatesShape(of, wire.FatesShape{Rows: p.rows, Layers: 1, Slots: f.slots}); err != nil {
		return fmt.Errorf("%w: a block: %w", wire.ErrMalformed, err)
	}
	return nil
}

// take takes in what a block says of a part of a layer's rows; it was checked. Where a layer
// has not all rows of the step, nobody can tell whose they are.
func (f *stepFates) take(layer int, p *rowsPart, rows int, of *pb.Fates) {
	if of == nil {
		return
	}
	at := slices.Index(f.layers, layer)
	codes, err := wire.DecodeFates(of)
	if rows != f.rows || at < 0 || err != nil || of.Omitted {
		f.omitted = true
		return
	}
	if len(f.codes) == 0 {
		f.codes = slices.Grow(f.codes, f.rows*len(f.layers)*f.slots)[:f.rows*len(f.layers)*f.slots]
		clear(f.codes)
		f.stood = reuse.Slice(f.stood, f.rows)
		clear(f.stood)
	}
	for i := range p.rows {
		from := ((p.first+i)*len(f.layers) + at) * f.slots
		copy(f.codes[from:from+f.slots], codes[i*f.slots:(i+1)*f.slots])
		f.stood[p.first+i] = stood{of.Way, of.Bundle}
	}
}

// of is what became of so many rows from the first on; nil: all slots had their own experts. They
// were computed by one stamp: those that replay what became of them before are in the log.
func (f *stepFates) of(first, rows int) *pb.Fates {
	if rows <= 0 {
		return nil
	}
	s := wire.FatesShape{Rows: rows, Layers: len(f.layers), Slots: f.slots}
	if f.omitted {
		out := wire.PlainFates(s)
		out.Omitted = true
		return out
	}
	if len(f.codes) == 0 {
		return nil
	}
	stride := s.Layers * s.Slots
	out := wire.EncodeFates(s, f.codes[first*stride:(first+rows)*stride])
	if out != nil {
		for _, s := range f.stood[first : first+rows] {
			out.Way, out.Bundle = max(out.Way, s.way), max(out.Bundle, s.bundle)
		}
	}
	return out
}
