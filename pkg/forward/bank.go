package forward

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/model"
)

// Bank holds the routed experts that are loaded. It is safe for concurrent use.
type Bank struct {
	m *model.Model
	p *pool.Pool

	mu      sync.RWMutex
	experts map[ExpertID]*Expert
	bytes   int64
}

// NewBank returns an empty bank of a model's experts that computes on p.
func NewBank(m *model.Model, p *pool.Pool) *Bank {
	return &Bank{m: m, p: p, experts: map[ExpertID]*Expert{}}
}

// Load makes an expert warm. Loading a warm one does nothing.
func (b *Bank) Load(id ExpertID) error {
	if b.Borrow(id) != nil {
		return nil
	}
	e, err := LoadExpert(context.Background(), b.m, id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.experts[id] == nil {
		b.experts[id] = e
		b.bytes += e.Bytes()
	}
	return nil
}

// Evict frees an expert's weights; computations that have begun finish.
func (b *Bank) Evict(id ExpertID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.experts[id]; e != nil {
		b.bytes -= e.Bytes()
		delete(b.experts, id)
	}
}

// Warm lists the loaded experts.
func (b *Bank) Warm() []ExpertID {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Collect(maps.Keys(b.experts))
}

// Bytes is the memory of the loaded experts.
func (b *Bank) Bytes() int64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.bytes
}

// Borrow returns a loaded expert.
func (b *Bank) Borrow(id ExpertID) *Expert {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.experts[id]
}

// GiveBack does nothing: whoever computes keeps the weights alive.
func (b *Bank) GiveBack(ExpertID) {}

// Compute is ComputeExperts with the bank's experts.
func (b *Bank) Compute(in Routed, out []float32, s *BankScratch) error {
	return ComputeExperts(b.p, b, in, out, s)
}

// BankScratch holds the buffers of one Compute at a time.
type BankScratch = ExpertScratch
