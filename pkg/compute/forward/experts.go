package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// ErrNotWarm says that an expert's weights are not loaded here.
var ErrNotWarm = errors.New("expert is not loaded on this host")

// ExpertID names a routed expert.
type ExpertID struct{ Layer, Expert int }

// String reads like "expert 7 of layer 3".
func (id ExpertID) String() string { return fmt.Sprintf("expert %d of layer %d", id.Expert, id.Layer) }

// Expert is the packed weights of one routed expert. It is immutable.
type Expert struct {
	ffn
	onInput bool // weights scale what goes in rather than what comes out
	space   *cpu.Space
}

// Space returns what the weights were packed into, or nil.
func (e *Expert) Space() *cpu.Space { return e.space }

// LoadExpertBy packs an expert's weights into a packer's space. It takes ExpertBytes, and while it
// packs a copy of at most the gate and up tensors beside. When ctx ends it stops
// before the next matrix.
func LoadExpertBy(ctx context.Context, by cpu.Packer, m *model.Model, id ExpertID) (*Expert, error) {
	refs := expertRefs(m, id)
	l, err := refs.layouts(m)
	if err != nil {
		return nil, fmt.Errorf("loading %v: %w", id, err)
	}
	if l.in.near() && l.down.near() {
		by.Near = m.Near(append(slices.Clone(refs.in), refs.down)...)
	}
	m.Fetch(refs.ahead(l, by.Near != nil)...)
	with, done := m.Fetching(ctx)
	defer done()
	f, err := loadFFNAs(ctx, by, with, refs, l)
	if err != nil {
		return nil, fmt.Errorf("loading %v: %w", id, err)
	}
	return &Expert{*f, m.Spec.Layer[id.Layer].Router.OnInput, by.Space}, nil
}

// ExpertBytes returns what Expert.Bytes will be. It reads no weights.
func ExpertBytes(m *model.Model, id ExpertID) (int64, error) {
	n, err := expertRefs(m, id).bytes(m)
	if err != nil {
		return 0, fmt.Errorf("sizing %v: %w", id, err)
	}
	return n, nil
}

func expertRefs(m *model.Model, id ExpertID) ffnRefs {
	var spec model.FFNSpec
	if id.Layer >= 0 && id.Layer < len(m.Spec.Layer) {
		spec = m.Spec.Layer[id.Layer].Expert
	}
	return refsOf(spec, id.Layer, id.Expert, model.ExpertRoles)
}

// Bytes returns the memory of the weights.
func (e *Expert) Bytes() int64 { return e.bytes() }

// Lender has loaded experts. It is safe for concurrent use.
type Lender interface {
	// Borrow returns an expert that stays loaded until it is given back; nil if
	// it is not loaded. Any id may be asked for.
	Borrow(id ExpertID) *Expert
	GiveBack(id ExpertID)
}

// Routed is work for experts of one layer. Entry i sends row Source[i] of X
// to Expert[i] and scales the result, or
// what goes in, by Weight[i].
type Routed struct {
	Layer  int
	X      []float32 // (S, D)
	Source []uint32
	Expert []uint32
	Weight []float32
}

// ExpertScratch holds the buffers of one ComputeExperts at a time.
type ExpertScratch struct {
	sorter ByExpert
	order  []int32
	groups []group
	items  []group // groups, or parts of them
	parts  []part
	x, y   []float32
	inner  []float32
	slots  []float32 // of SumSlots
	first  []int32
	// Read counts the bytes of weights that computing took.
	Read int64
}

// group is the entries order[from:to], all of one expert.
type group struct {
	id       ExpertID
	expert   *Expert
	from, to int
	rounded  *cpu.Rounded // what its next matrix takes, where that rounds rows
}

// ComputeExperts fills out (entries, D), entry by entry in the order given. A
// row's result does not depend on the other entries. The experts that it needs
// are borrowed until it returns; one that is not loaded is ErrNotWarm.
func ComputeExperts(p *pool.Pool, from Lender, in Routed, out []float32, s *ExpertScratch) error {
	s.group(in)
	if len(s.groups) == 0 {
		return nil
	}
	if err := s.borrow(from); err != nil {
		return err
	}
	defer s.giveBack(from)
	s.compute(p, in, out)
	return nil
}

func (s *ExpertScratch) group(in Routed) {
	s.order = s.sorter.Order(s.order[:0], in.Expert)
	s.groups = s.groups[:0]
	for from := 0; from < len(s.order); {
		e, to := in.Expert[s.order[from]], from+1
		for to < len(s.order) && in.Expert[s.order[to]] == e {
			to++
		}
		s.groups = append(s.groups, group{id: ExpertID{in.Layer, int(e)}, from: from, to: to})
		from = to
	}
}

// borrow looks the groups' experts up. It keeps all of them or none.
func (s *ExpertScratch) borrow(from Lender) error {
	for i := range s.groups {
		g := &s.groups[i]
		if g.expert = from.Borrow(g.id); g.expert == nil {
			id := g.id
			s.groups = s.groups[:i]
			s.giveBack(from)
			return fmt.Errorf("%w: %v", ErrNotWarm, id)
		}
	}
	return nil
}

// giveBack also forgets the weights, so that scratch does not keep an expert in
// memory that was evicted since.
func (s *ExpertScratch) giveBack(from Lender) {
	for i := range s.groups {
		s.groups[i].expert = nil
		from.GiveBack(s.groups[i].id)
	}
	s.groups = s.groups[:0]
}

func (s *ExpertScratch) compute(p *pool.Pool, in Routed, out []float32) {
	first := s.groups[0].expert
	d, n := first.hidden(), len(in.Expert)
	s.x, s.y = reuse.Slice(s.x, n*d), reuse.Slice(s.y, n*d)
	s.inner = reuse.Slice(s.inner, first.floatsFor(n))
	s.run(p, in, out)
}

// gather fills x with what goes into entries [from, to) of a group; x begins at the group's first.
func (s *ExpertScratch) gather(x []float32, g group, in *Routed, from, to int) {
	d := g.expert.hidden()
	for at := from; at < to; at++ {
		entry := s.order[g.from+at]
		src := int(in.Source[entry])
		scaleInto(x[at*d:(at+1)*d], in.X[src*d:(src+1)*d], g.expert.before(in.Weight[entry]))
	}
}

// scatter fills out with what comes out of entries [from, to) of a group; y begins at the group's first.
func (s *ExpertScratch) scatter(y []float32, g group, in *Routed, out []float32, from, to int) {
	d := g.expert.hidden()
	for at := from; at < to; at++ {
		entry := int(s.order[g.from+at])
		scaleInto(out[entry*d:(entry+1)*d], y[at*d:(at+1)*d], g.expert.after(in.Weight[entry]))
	}
}

// before and after are what a weight scales the expert's input and output by.
func (e *Expert) before(weight float32) float32 {
	if e.onInput {
		return weight
	}
	return 1
}

func (e *Expert) after(weight float32) float32 {
	if e.onInput {
		return 1
	}
	return weight
}

// scaleInto is dst = w · x; 1 copies it.
func scaleInto(dst, x []float32, w float32) {
	copy(dst, x)
	if w != 1 {
		cpu.Scale(dst[:len(x)], w)
	}
}

// run computes all groups: one after the other where that is little, side by side, or each matrix of all of them cut
// over the pool.
func (s *ExpertScratch) run(p *pool.Pool, in Routed, out []float32) {
	total, threads := 0, 1
	if p != nil {
		threads = p.Threads()
	}
	for _, g := range s.groups {
		s.Read += g.expert.bytes()
		total += g.expert.nanos(g.to - g.from)
	}
	w := workers{Pool: p}
	parts := min(threads, w.parts(total))
	switch {
	case !s.cut(threads), s.uneven(total, parts):
		s.runSpread(w, &in, out)
	case parts == 1:
		for _, g := range s.items {
			s.runShort(g, &in, out)
		}
	default:
		slices.SortStableFunc(s.items, func(a, b group) int { return (b.to - b.from) - (a.to - a.from) }) // the last ones are short
		p.Run(len(s.items), func(i int) { s.runShort(s.items[i], &in, out) })
	}
	clear(s.items)
}

// runShort computes a group on the calling goroutine, in memory that its core had last.
func (s *ExpertScratch) runShort(g group, in *Routed, out []float32) {
	own, ok := shortScratches.Get().(*shortScratch)
	if !ok {
		own = new(shortScratch)
	}
	n, d, w := g.to-g.from, g.expert.hidden(), g.expert.floatsFor(1)
	own.floats = reuse.Slice(own.floats, n*(2*d+w))
	x, y, inner := own.floats[:n*d], own.floats[n*d:2*n*d], own.floats[2*n*d:]
	s.gather(x, g, in, 0, n)
	g.expert.runInline(y, x, n, inner)
	s.scatter(y, g, in, out, 0, n)
	shortScratches.Put(own)
}

// shortScratch is what one runShort at a time needs.
type shortScratch struct{ floats []float32 }

var shortScratches sync.Pool // of *shortScratch

func (s *ExpertScratch) slices(g *group) (x, y, inner []float32) {
	d, w := g.expert.hidden(), g.expert.floatsFor(1)
	return s.x[g.from*d : g.to*d], s.y[g.from*d : g.to*d], s.inner[g.from*w : g.to*w]
}
