package device

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Loader brings weights into a device's memory. E is a pointer to them.
type Loader[E any] interface {
	// Size is the bytes of an expert's weights on the device, known before they
	// are loaded. It fails only for an expert that the model does not have.
	Size(id forward.ExpertID) (int64, error)
	// Load allocates and fills the weights. It returns early when ctx ends, and
	// what it has allocated is free when it returns an error.
	Load(ctx context.Context, id forward.ExpertID) (E, error)
	// Free gives the memory back. It does not wait.
	Free(weights E)
}

// Piecewise is a Loader whose loads run in pieces. One that is less urgent than another
// stands still between them.
type Piecewise[E any] interface {
	Loader[E]
	LoadInPieces(ctx context.Context, id forward.ExpertID, p Pieces) (E, error)
}

// Pieces are what the loads of a Piecewise loader are told.
type Pieces struct {
	// Next is called before a load begins and at the end of a piece: nil says that the load goes
	// on at once, else it stands still, and leaves what it shares with others to them, until the
	// channel is closed or ctx ends. It need not be called while nothing comes of Urged.
	Next func() (resume <-chan struct{})
	// Urged has a note when something more urgent may have come, or the load has become so.
	Urged <-chan struct{}
	// Demanded reports whether rows wait for the load by now; nil: they do.
	Demanded func() bool
}

// Store is what all devices share: which experts are there, who uses them, and
// which are loaded next. What it decides, a residency.Machine does; the store has the
// tickets, the loads that run, and the weights.
type Store[E any] struct {
	loader          Loader[E]
	settings        Settings
	layers, experts int
	slots           []slot[E] // (layers, experts)
	memory          *memory

	mu     sync.Mutex
	tier   *residency.Machine
	told   []Ended    // what unlock has to tell
	runs   []*slot[E] // whose loads have begun, and have not ended
	closed bool
	loads  sync.WaitGroup
}

type slot[E any] struct {
	id forward.ExpertID
	// uses is 0 without weights; else 1, and 1 more for each ticket and each
	// computation. Only who takes it from 1 to 0 may free the weights, so looking
	// and evicting are one step, and computations need no lock.
	uses    atomic.Int64
	weights E

	// The rest is guarded by the store's mu.
	bytes   int64     // as last wanted
	waiting []*Ticket // for the load
	failure error     // of the last load
	wanted  time.Time
	began   time.Time
	cancel  context.CancelFunc // of the load that runs
	resume  chan struct{}      // of the load that stands still
	urged   chan struct{}      // Pieces.Urged of the load
}

// NewStore returns an empty store for a model of so many layers, each with so many experts.
func NewStore[E any](layers, experts int, l Loader[E], s Settings) *Store[E] {
	if s.Loads <= 0 {
		s.Loads = DefaultLoads
	}
	if s.Order == nil {
		s.Order = residency.Newest{}
	}
	st := &Store[E]{loader: l, settings: s, layers: layers, experts: experts, slots: make([]slot[E], layers*experts), memory: newMemory(layers, experts)}
	for i := range st.slots {
		st.slots[i].id = forward.ExpertID{Layer: i / experts, Expert: i % experts}
	}
	st.tier = residency.New(residency.Settings{
		Budget: s.Budget, Loads: s.Loads, Order: s.Order,
		Busy:  func(u unit.Unit) bool { return st.at(u).uses.Load() != 1 },
		Watch: st.memory.watch,
	})
	return st
}

func (sl *slot[E]) unit() unit.Unit { return unit.Expert(sl.id.Layer, sl.id.Expert) }

func (s *Store[E]) at(u unit.Unit) *slot[E] { return &s.slots[u.Layer*s.experts+u.Index] }

// slot returns nil for an expert that the model does not have.
func (s *Store[E]) slot(id forward.ExpertID) *slot[E] {
	if uint(id.Layer) >= uint(s.layers) || uint(id.Expert) >= uint(s.experts) {
		return nil
	}
	return &s.slots[id.Layer*s.experts+id.Expert]
}

// Borrow returns the weights of a warm expert, which stay until GiveBack; the
// zero E if it is not warm. It is for computing: it takes no lock.
func (s *Store[E]) Borrow(id forward.ExpertID) (weights E) {
	if sl := s.slot(id); sl != nil && sl.use() {
		return sl.weights
	}
	return weights
}

// GiveBack ends a Borrow that returned weights.
func (s *Store[E]) GiveBack(id forward.ExpertID) { s.slot(id).uses.Add(-1) }

// use counts one more use of weights, if there are any.
func (sl *slot[E]) use() bool {
	for {
		n := sl.uses.Load()
		if n == 0 {
			return false
		}
		if sl.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Size returns the bytes that an expert takes.
func (s *Store[E]) Size(id forward.ExpertID) (int64, error) {
	if s.slot(id) == nil {
		return 0, fmt.Errorf("%w: %v; there are %d in each of %d layers", ErrUnknown, id, s.experts, s.layers)
	}
	n, err := s.loader.Size(id)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return n, nil
}

// State returns what the store knows of an expert.
func (s *Store[E]) State(id forward.ExpertID) State {
	sl := s.slot(id)
	if sl == nil {
		return State{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := sl.unit()
	st := State{Err: sl.failure, Bytes: s.tier.Bytes(u), Tickets: s.tier.References(u)}
	switch phase := s.tier.Phase(u); {
	case phase == residency.Held:
		st.Phase = Warm
	case phase != residency.Cold:
		st.Phase, st.Queued = Loading, phase == residency.Queued
	case sl.failure != nil:
		st.Phase = Failed
	}
	return st
}

// Memory returns the bytes of all experts.
func (s *Store[E]) Memory() Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Memory{Used: s.tier.Used(), Budget: s.settings.Budget, Waiting: s.tier.Waiting(), Running: s.tier.Running()}
}

// Reorder changes what the order knows; see Device.
func (s *Store[E]) Reorder(change func()) {
	s.mu.Lock()
	defer s.unlock()
	change()
	s.tier.Rerank()
}

func (s *Store[E]) tell(sl *slot[E], err error) {
	if s.settings.Ended == nil {
		return
	}
	e := Ended{ID: sl.id, Bytes: sl.bytes, Err: err}
	if !sl.began.IsZero() {
		e.Waited, e.Took = sl.began.Sub(sl.wanted), time.Since(sl.began)
	} else if !sl.wanted.IsZero() {
		e.Waited = time.Since(sl.wanted)
	}
	s.told = append(s.told, e)
}

func (s *Store[E]) unlock() {
	told := s.told
	s.told = nil
	s.mu.Unlock()
	for _, e := range told {
		s.settings.Ended(e)
	}
}
