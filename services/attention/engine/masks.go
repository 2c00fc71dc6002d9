package engine

import (
	"context"
	"sync"

	"github.com/switchyard/switchyard/internal/pause"
)

// masks are found for sequences whose grammars take time, where no step waits for it: by one goroutine, so that
// the others of a machine compute, and in turn for each tenant that has such sequences.
type masks struct {
	more chan struct{} // holds a signal when there may be another one

	mu    sync.Mutex
	turns []string // tenants that wait, the next one first
	of    map[string][]*Sequence
}

func newMasks() masks { return masks{more: make(chan struct{}, 1), of: map[string][]*Sequence{}} }

// ask has it be found what may come next in a sequence.
func (m *masks) ask(s *Sequence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tenant := s.flow.Tenant
	if len(m.of[tenant]) == 0 {
		m.turns = append(m.turns, tenant)
	}
	m.of[tenant] = append(m.of[tenant], s)
	pause.Wake(m.more)
}

// next is the sequence whose turn it is; nil: none waits.
func (m *masks) next() *Sequence {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.turns) == 0 {
		return nil
	}
	tenant := m.turns[0]
	s, others := m.of[tenant][0], m.of[tenant][1:]
	m.turns = m.turns[1:]
	if m.of[tenant] = others; len(others) > 0 {
		m.turns = append(m.turns, tenant)
	} else {
		delete(m.of, tenant)
	}
	return s
}

// run finds masks until ctx ends, and hands on whose are there.
func (m *masks) run(ctx context.Context, found chan<- *Sequence) {
	for {
		s := m.next()
		if s == nil {
			select {
			case <-m.more:
				continue
			case <-ctx.Done():
				return
			}
		}
		s.cursor.Read(s.newest)
		s.cursor.Mask()
		select {
		case found <- s:
		case <-ctx.Done():
			return
		}
	}
}
