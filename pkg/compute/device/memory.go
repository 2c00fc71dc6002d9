package device

import (
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// memory meters what a store's experts take of it, by layer, on a clock of its own.
type memory struct {
	experts int
	began   time.Time

	mu    sync.Mutex
	meter *meter.Meter
	units []meter.Unit // (layers, experts)
}

func newMemory(layers, experts int) *memory {
	return &memory{experts: experts, began: time.Now(), meter: meter.New(layers), units: make([]meter.Unit, layers*experts)}
}

// now is called with mu held, so that times of calls ascend.
func (m *memory) now() float64 { return time.Since(m.began).Seconds() }

func (m *memory) watch(u unit.Unit, bytes int64, is residency.Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, now := &m.units[u.Layer*m.experts+u.Index], m.now()
	switch is {
	case residency.Loading:
		m.meter.Take(one, u.Layer, bytes, now)
	case residency.Held:
		m.meter.Hold(one, now)
	case residency.Cold:
		m.meter.Drop(one, now)
	case residency.Queued, residency.Evicting: // nobody is told of these
	}
}

// Use is one call's use of experts. Who keeps it for its next calls allocates nothing.
type Use struct {
	all []use
	of  []int32 // of each entry, its use
	at  []int32 // of each expert, its use and 1 more; 0: it has none

	// Layer and Access are of a device that meters calls as a whole, Free says that it charges
	// nothing for this one, and whole is what it has charged for each entry.
	Layer  int
	Access meter.Access
	Free   bool
	billed bool
	whole  float64
}

// Charge has the call's entries share what the call took as a whole, in bytes times seconds, in
// place of what their experts did.
func (u *Use) Charge(took float64) {
	u.billed, u.whole = true, took/float64(max(1, len(u.of)))
}

type use struct {
	unit   int
	rows   int
	access meter.Access
	took   float64
}

// Entries returns those of the call.
func (u *Use) Entries() int { return len(u.of) }

// Took returns what an entry of the call took of memory, in bytes times seconds: its part of
// what its expert did.
func (u *Use) Took(entry int) float64 {
	if u.billed {
		return u.whole
	}
	of := &u.all[u.of[entry]]
	return of.took / float64(of.rows)
}

func (u *Use) list(first int, experts []uint32, limit int) {
	u.all, u.of, u.billed = u.all[:0], u.of[:0], false
	if len(u.at) < limit {
		u.at = make([]int32, limit)
	}
	for _, e := range experts {
		if u.at[e] == 0 {
			u.all = append(u.all, use{unit: first + int(e)})
			u.at[e] = int32(len(u.all))
		}
		at := u.at[e] - 1
		u.all[at].rows++
		u.of = append(u.of, at)
	}
	for _, e := range experts {
		u.at[e] = 0
	}
}

// Begin begins a call's use of experts; see Device. The store's model has the layer and
// the experts.
func (s *Store[E]) Begin(u *Use, layer int, experts []uint32, waited time.Duration) {
	m := s.memory
	u.list(layer*m.experts, experts, m.experts)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for i := range u.all {
		u.all[i].access = m.meter.Begin(&m.units[u.all[i].unit], now-waited.Seconds(), now)
	}
}

// End ends it; see Device.
func (s *Store[E]) End(u *Use) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for i := range u.all {
		one := &u.all[i]
		one.took = m.meter.End(&m.units[one.unit], one.access, now)
	}
}

// Metered returns what the store's experts have come to; see Device.
func (s *Store[E]) Metered() meter.Sums {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meter.Read(m.now())
}

// MeteredLayer returns what those of a layer have come to; see Device.
func (s *Store[E]) MeteredLayer(layer int) meter.Sums {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meter.Group(layer, m.now())
}
