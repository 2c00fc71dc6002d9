package words

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// NoPair is no id and no rank.
const NoPair = math.MaxUint32

// Pairs are the pairs of symbols that join: a hash table with open addressing,
// which answers several times faster than a map.
type Pairs struct {
	slots []slot
	used  int
	seed  uint64 // so that no file can be made to collide
}

// slot is empty while key is 0.
type slot struct {
	key      uint64
	rank, id uint32
}

// NewPairs has room for n pairs; it grows.
func NewPairs(n int) *Pairs {
	return &Pairs{slots: make([]slot, 1<<bits.Len(uint(max(2*n, 8)))), seed: rand.Uint64()}
}

func pairKey(a, b uint32) uint64 { return (uint64(a)<<32 | uint64(b)) + 1 }

func (p *Pairs) find(key uint64) *slot {
	high, low := bits.Mul64(key^p.seed, 0x9e3779b97f4a7c15)
	mask := uint64(len(p.slots) - 1)
	for i := (high ^ low) & mask; ; i = (i + 1) & mask {
		if s := &p.slots[i]; s.key == key || s.key == 0 {
			return s
		}
	}
}

// Add lets a and b join into id at a rank; a pair that was added before is
// changed.
func (p *Pairs) Add(a, b, rank, id uint32) {
	s := p.find(pairKey(a, b))
	if s.key == 0 {
		p.used++
	}
	*s = slot{pairKey(a, b), rank, id}
	if 2*p.used > len(p.slots) {
		p.grow()
	}
}

func (p *Pairs) grow() {
	old := p.slots
	p.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.key != 0 {
			*p.find(s.key) = s
		}
	}
}

// get returns what a and b become, and when; None and None if they stay apart.
func (p *Pairs) get(a, b uint32) (rank, id uint32) {
	s := p.find(pairKey(a, b))
	if s.key == 0 {
		return NoPair, NoPair
	}
	return s.rank, s.id
}

// AddSplits adds all pairs that make token: its rank and id are given, and id
// says which parts are tokens themselves. at are the places between its
// characters.
func (p *Pairs) AddSplits(token string, rank, whole uint32, at []int, id func(part string) (uint32, bool)) {
	for _, i := range at {
		a, ok := id(token[:i])
		if !ok {
			continue
		}
		if b, ok := id(token[i:]); ok {
			p.Add(a, b, rank, whole)
		}
	}
}
