package expertmap

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// What is refused of maps, each with what was wrong.
var (
	ErrShape   = errors.New("an expert map of another shape")
	ErrValues  = errors.New("an expert map with values that cannot be")
	ErrTenants = errors.New("too many tenants have expert maps")
)

// Counts are what happened to maps.
type Counts struct {
	Added    uint64 `json:"added"`    // those that replaced others included
	Replaced uint64 `json:"replaced"` // of them
	Skipped  uint64 `json:"skipped"`  // not taken, since one that is there is like it
	Forgot   uint64 `json:"forgot"`
	// Refused by ErrShape, ErrValues and ErrTenants.
	RefusedShape   uint64 `json:"refused_shape"`
	RefusedValues  uint64 `json:"refused_values"`
	RefusedTenants uint64 `json:"refused_tenants"`
}

// Map is one map to be added, with its row's embedding.
type Map struct {
	Embedding     []float32
	Probabilities []float32 // (Layers, Experts), each layer's sum is 1
}

// Store keeps maps.
type Store struct {
	Settings
	parts  map[string]*part // by tenant; by "" if Shared
	slots  []*part          // by Match.Index / Capacity; nil is free
	counts Counts

	maps, embeddings codec
}

// New is an empty store.
func New(s Settings) (*Store, error) {
	s = s.filled()
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Store{
		Settings: s, parts: map[string]*part{}, maps: newCodec(s.Experts, s.Maps), embeddings: newCodec(s.Embedding, s.Embeddings),
	}, nil
}

// Counts are what has happened since New.
func (s *Store) Counts() Counts { return s.counts }

// Add takes in a map. Settings.Replace says which one goes if there is no room.
func (s *Store) Add(tenant string, embedding, m []float32) error {
	return s.AddBatch(tenant, []Map{{embedding, m}})
}

// AddBatch takes in the maps of one step's rows. None of them replaces another one of the
// batch, as long as others are left. Maps that cannot be are refused one by one; the first
// reason is returned.
func (s *Store) AddBatch(tenant string, batch []Map) error {
	return s.addBatch(tenant, batch, offOne)
}

// addBatch takes in maps of whose layers the sums are off 1 by no more than off.
func (s *Store) addBatch(tenant string, batch []Map, off float64) (err error) {
	var good []Map
	for _, m := range batch {
		if bad := s.checkMap(m, off); bad == nil {
			good = append(good, m)
		} else if err == nil {
			err = bad
		}
	}
	if len(good) == 0 {
		return err
	}
	p, bad := s.room(tenant)
	if bad != nil {
		s.counts.RefusedTenants += uint64(len(good))
		return bad
	}
	owner := p.ownerOf(tenant)
	for part := range slices.Chunk(good, s.Capacity) {
		p.add(s, owner, part)
	}
	return err
}

func (s *Store) checkMap(m Map, off float64) error {
	if len(m.Probabilities) != s.Layers*s.Experts || len(m.Embedding) != s.Embedding {
		s.counts.RefusedShape++
		return fmt.Errorf("%w: it has %d probabilities and an embedding of %d; this model's have %d × %d and %d",
			ErrShape, len(m.Probabilities), len(m.Embedding), s.Layers, s.Experts, s.Embedding)
	}
	err := checkEmbedding(m.Embedding)
	for l := 0; l < s.Layers && err == nil; l++ {
		if err = checkRow(m.Probabilities[l*s.Experts:(l+1)*s.Experts], off); err != nil {
			err = fmt.Errorf("layer %d: %w", l+1, err)
		}
	}
	if err != nil {
		s.counts.RefusedValues++
		return fmt.Errorf("%w: %w", ErrValues, err)
	}
	return nil
}

// offOne is how far a sum may be from 1: rounding to bf16 moves it less.
const offOne = 1.0 / 128

// largest is the largest magnitude in an embedding, whose square's sums stay finite.
const largest = 1e15

func checkRow(row []float32, off float64) error {
	sum := 0.0
	for e, p := range row {
		if !(p >= 0) { // negative, or no number
			return fmt.Errorf("the probability of expert %d is %v", e, p)
		}
		sum += float64(p)
	}
	if !(math.Abs(sum-1) <= off) {
		return fmt.Errorf("the probabilities sum to %v, not 1", sum)
	}
	return nil
}

func checkEmbedding(e []float32) error {
	for i, v := range e {
		if !(v >= -largest && v <= largest) {
			return fmt.Errorf("value %d of the embedding is %v", i, v)
		}
	}
	return nil
}

func (s *Store) scope(tenant string) string {
	if s.Shared {
		return ""
	}
	return tenant
}

// room is the tenant's part, made if there may be another one.
func (s *Store) room(tenant string) (*part, error) {
	name := s.scope(tenant)
	p := s.parts[name]
	if p == nil && len(s.parts) >= s.Tenants || s.Shared && p != nil && !p.knows(tenant) && p.known() >= s.Tenants {
		return nil, fmt.Errorf("%w: %d have; raise their number, or forget one", ErrTenants, s.Tenants)
	}
	if p == nil {
		p = newPart(s.Settings)
		if p.place = slices.Index(s.slots, nil); p.place < 0 {
			p.place = len(s.slots)
			s.slots = append(s.slots, nil)
		}
		s.slots[p.place], s.parts[name] = p, p
	}
	return p, nil
}

// Forget drops all maps that a tenant has added, and returns how many. No memory keeps
// them; a snapshot that was made before does.
func (s *Store) Forget(tenant string) (n int) {
	p := s.parts[s.scope(tenant)]
	if p == nil {
		return 0
	}
	if n = p.forget(tenant); p.count == 0 {
		s.slots[p.place] = nil
		delete(s.parts, s.scope(tenant))
	}
	s.counts.Forgot += uint64(n)
	return n
}

// Len is the number of maps that a tenant can find.
func (s *Store) Len(tenant string) int {
	if p := s.parts[s.scope(tenant)]; p != nil {
		return p.count
	}
	return 0
}

// Owners are the tenants that have maps, with how many, in the order of their names.
func (s *Store) Owners() (names []string, count []int) {
	all := map[string]int{}
	for _, p := range s.parts {
		for _, o := range p.owners {
			if o.maps > 0 {
				all[o.name] += o.maps
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		names, count = append(names, name), append(count, all[name])
	}
	return names, count
}

// Row is a found map's probabilities of a layer, from 1; nil if there are none.
func (s *Store) Row(index, layer int) []float32 {
	row := make([]float32, s.Experts)
	if !s.RowInto(row, index, layer) {
		return nil
	}
	return row
}

// RowInto fills row (Experts) with what Row returns, and is false if there is nothing.
func (s *Store) RowInto(row []float32, index, layer int) bool {
	if index < 0 || index/s.Capacity >= len(s.slots) || layer < 1 || layer > s.Layers {
		return false
	}
	p, slot := s.slots[index/s.Capacity], index%s.Capacity
	if p == nil || slot >= p.count {
		return false
	}
	p.layers[layer-1].Row(row, slot)
	return true
}

// MemoryBytes is what all maps take, with the room that is reserved for more.
func (s *Store) MemoryBytes() (bytes int64) {
	for _, p := range s.parts {
		bytes += p.bytes()
	}
	return bytes
}
