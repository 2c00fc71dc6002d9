package transfer_test

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/switchyard/switchyard/pkg/transport/transfer"
)

// Memory is objects in memory, bounded in bytes.
type Memory struct {
	// Limit is the most bytes of all objects; 0: as many as come.
	Limit int

	mu  sync.Mutex
	all map[string]object
}

type object struct {
	data []byte
	sum  transfer.Sum
}

// Put implements transfer.Objects.
func (m *Memory) Put(_ context.Context, name string, data []byte, sum transfer.Sum) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := len(data)
	for _, o := range m.all {
		size += len(o.data)
	}
	if m.Limit > 0 && size > m.Limit {
		return transfer.ErrFull
	}
	if m.all == nil {
		m.all = map[string]object{}
	}
	m.all[name] = object{slices.Clone(data), sum}
	return nil
}

// Get implements transfer.Objects.
func (m *Memory) Get(_ context.Context, name string, most int) ([]byte, transfer.Sum, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.all[name]
	switch {
	case !ok:
		return nil, o.sum, transfer.ErrMissing
	case len(o.data) > most || sha256.Sum256(o.data) != o.sum:
		return nil, o.sum, transfer.ErrCorrupt
	}
	return slices.Clone(o.data), o.sum, nil
}

// Remove implements transfer.Objects.
func (m *Memory) Remove(_ context.Context, group string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.all, func(name string, _ object) bool { return strings.HasPrefix(name, group+".") })
	return nil
}

// Count is how many objects there are.
func (m *Memory) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

// Faulty is objects with faults. It counts what is asked of it.
type Faulty struct {
	transfer.Objects
	// Putting and Getting are asked before an object is stored and read, by its name; an error is
	// the answer. nil: there are no faults.
	Putting, Getting func(name string) error

	mu         sync.Mutex
	puts, gets int
}

// Put implements transfer.Objects.
func (f *Faulty) Put(ctx context.Context, name string, data []byte, sum transfer.Sum) error {
	f.count(&f.puts)
	if f.Putting != nil {
		if err := f.Putting(name); err != nil {
			return err
		}
	}
	return f.Objects.Put(ctx, name, data, sum)
}

// Get implements transfer.Objects.
func (f *Faulty) Get(ctx context.Context, name string, most int) ([]byte, transfer.Sum, error) {
	f.count(&f.gets)
	if f.Getting != nil {
		if err := f.Getting(name); err != nil {
			return nil, transfer.Sum{}, err
		}
	}
	return f.Objects.Get(ctx, name, most)
}

func (f *Faulty) count(what *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*what++
}

// Puts is how often an object was to be stored.
func (f *Faulty) Puts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.puts
}
