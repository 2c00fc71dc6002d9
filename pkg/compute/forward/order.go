package forward

import (
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
)

// ByExpert orders entries by expert. It keeps its memory.
type ByExpert struct {
	keys []uint64
	next []int32 // where the next entry of each expert goes
}

// fewExperts are so few that all may be counted.
const fewExperts = 4096

// Order appends to order the numbers of all entries, by expert and those of one as they came.
func (b *ByExpert) Order(order []int32, experts []uint32) []int32 {
	if len(experts) == 0 {
		return order
	}
	if most := slices.Max(experts); most < fewExperts {
		return b.count(order, experts, int(most)+1)
	}
	b.keys = b.keys[:0]
	for i, e := range experts {
		b.keys = append(b.keys, uint64(e)<<32|uint64(i))
	}
	slices.Sort(b.keys)
	for _, key := range b.keys {
		order = append(order, int32(uint32(key)))
	}
	return order
}

// count is Order of experts below n, by how many entries each has.
func (b *ByExpert) count(order []int32, experts []uint32, n int) []int32 {
	b.next = reuse.Slice(b.next, n)
	clear(b.next)
	for _, e := range experts {
		b.next[e]++
	}
	at := int32(0)
	for e, entries := range b.next {
		b.next[e], at = at, at+entries
	}
	from := len(order)
	order = slices.Grow(order, len(experts))[:from+len(experts)]
	for i, e := range experts {
		order[from+int(b.next[e])] = int32(i)
		b.next[e]++
	}
	return order
}
