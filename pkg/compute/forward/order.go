package forward

import "slices"

// ByExpert orders entries by expert. It keeps its memory.
type ByExpert struct{ keys []uint64 }

// Order appends to order the numbers of all entries, by expert and those of one as they came.
func (b *ByExpert) Order(order []int32, experts []uint32) []int32 {
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
