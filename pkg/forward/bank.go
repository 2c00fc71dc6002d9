package forward

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/model"
)

// ErrNotWarm says that an expert's weights are not loaded here.
var ErrNotWarm = errors.New("expert is not loaded on this host")

// ExpertID names a routed expert.
type ExpertID struct{ Layer, Expert int }

// Bank holds the routed experts that are loaded. It is safe for concurrent use.
type Bank struct {
	m *model.Model
	p *pool.Pool

	mu      sync.RWMutex
	experts map[ExpertID]*ffn
	bytes   int64
}

// NewBank returns an empty bank of a model's experts that computes on p.
func NewBank(m *model.Model, p *pool.Pool) *Bank {
	return &Bank{m: m, p: p, experts: map[ExpertID]*ffn{}}
}

// Load makes an expert warm. Loading a warm one does nothing.
func (b *Bank) Load(id ExpertID) error {
	if b.get(id) != nil {
		return nil
	}
	f, err := loadFFN(b.m, id.Layer, id.Expert, model.ExpertGate, model.ExpertUp, model.ExpertDown)
	if err != nil {
		return fmt.Errorf("loading expert %d of layer %d: %w", id.Expert, id.Layer, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.experts[id] == nil {
		b.experts[id] = f
		b.bytes += f.bytes()
	}
	return nil
}

// Evict frees an expert's weights; computations that have begun finish.
func (b *Bank) Evict(id ExpertID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.experts[id]; f != nil {
		b.bytes -= f.bytes()
		delete(b.experts, id)
	}
}

// Warm lists the loaded experts.
func (b *Bank) Warm() []ExpertID {
	b.mu.RLock()
	defer b.mu.RUnlock()
	ids := make([]ExpertID, 0, len(b.experts))
	for id := range b.experts {
		ids = append(ids, id)
	}
	return ids
}

// Bytes is the memory of the loaded experts.
func (b *Bank) Bytes() int64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.bytes
}

func (b *Bank) get(id ExpertID) *ffn {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.experts[id]
}

// Routed is work for experts of one layer. Entry i sends row Source[i] of X
// to Expert[i] and scales the result by Weight[i].
type Routed struct {
	Layer  int
	X      []float32 // (S, D)
	Source []uint32
	Expert []uint32
	Weight []float32
}

// BankScratch holds the buffers of one Compute at a time.
type BankScratch struct {
	order  []int32
	groups []group
	x, y   []float32
	inner  []float32
	// Read counts the bytes of weights that computing took.
	Read int64
}

// group is the entries order[from:to], all of one expert.
type group struct {
	f        *ffn
	from, to int
}

// Compute fills out (entries, D), entry by entry in the order given. A row's
// result does not depend on the other entries.
func (b *Bank) Compute(in Routed, out []float32, s *BankScratch) error {
	if err := b.group(in, s); err != nil {
		return err
	}
	d, n := b.m.Spec.Hidden, len(in.Expert)
	s.x, s.y = Resize(s.x, n*d), Resize(s.y, n*d)
	eachRow(workers{Pool: b.p}, n, d/8, func(from, to int) {
		for at := from; at < to; at++ {
			src := int(in.Source[s.order[at]])
			copy(s.x[at*d:(at+1)*d], in.X[src*d:(src+1)*d])
		}
	})
	s.inner = Resize(s.inner, 3*b.m.Spec.ExpertWidth*n)
	b.run(s, d)
	eachRow(workers{Pool: b.p}, n, d/2, func(from, to int) {
		for at := from; at < to; at++ {
			entry := int(s.order[at])
			scaleInto(out[entry*d:(entry+1)*d], s.y[at*d:(at+1)*d], in.Weight[entry])
		}
	})
	return nil
}

func scaleInto(dst, x []float32, w float32) {
	for i, v := range x {
		dst[i] = v * w
	}
}

// group sorts the entries by expert and looks the experts up.
func (b *Bank) group(in Routed, s *BankScratch) error {
	s.order = s.order[:0]
	for i := range in.Expert {
		s.order = append(s.order, int32(i))
	}
	slices.SortStableFunc(s.order, func(x, y int32) int { return int(in.Expert[x]) - int(in.Expert[y]) })
	s.groups = s.groups[:0]
	for from := 0; from < len(s.order); {
		e, to := in.Expert[s.order[from]], from+1
		for to < len(s.order) && in.Expert[s.order[to]] == e {
			to++
		}
		f := b.get(ExpertID{in.Layer, int(e)})
		if f == nil {
			return fmt.Errorf("%w: expert %d of layer %d", ErrNotWarm, e, in.Layer)
		}
		s.groups = append(s.groups, group{f, from, to})
		from = to
	}
	return nil
}

// run computes all groups: side by side when each is short, each one cut over
// the pool when they are long.
func (b *Bank) run(s *BankScratch, d int) {
	total, longest := 0, 0
	for _, g := range s.groups {
		s.Read += g.f.bytes()
		cost := g.f.nanos(g.to - g.from)
		total, longest = total+cost, max(longest, cost)
	}
	switch {
	case longest > 4*itemNanos:
		for _, g := range s.groups {
			x, y, inner := s.slices(g, d)
			g.f.run(workers{Pool: b.p}, y, x, g.to-g.from, inner)
		}
	case total < inlineNanos:
		for i := range s.groups {
			s.runGroup(i, d)
		}
	default:
		b.p.Run(len(s.groups), func(i int) { s.runGroup(i, d) })
	}
}

func (s *BankScratch) runGroup(i, d int) {
	g := s.groups[i]
	x, y, inner := s.slices(g, d)
	g.f.runInline(y, x, g.to-g.from, inner)
}

func (s *BankScratch) slices(g group, d int) (x, y, inner []float32) {
	w := 3 * g.f.width()
	return s.x[g.from*d : g.to*d], s.y[g.from*d : g.to*d], s.inner[g.from*w : g.to*w]
}
