package residency

import "cmp"

// Order is how a policy ranks units. It may know more of them than an Item says; when
// what it knows changes, Machine.Rerank makes it count. Items are read only.
type Order interface {
	// EvictFirst is negative if a is evicted before b.
	EvictFirst(a, b *Item) int
	// FetchFirst is negative if a is fetched before b, which is as urgent.
	FetchFirst(a, b *Item) int
	// Yields says whether an unused unit may be evicted for a wanted one.
	Yields(idle, to *Item) bool
}

// LRU evicts what has not been used for the longest, and fetches by priority, then in
// the order of wants.
type LRU struct{}

var _ Order = LRU{}

// EvictFirst is the earlier use.
func (LRU) EvictFirst(a, b *Item) int { return cmp.Compare(a.Used, b.Used) }

// FetchFirst is the higher priority, then the earlier want.
func (LRU) FetchFirst(a, b *Item) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Wanted, b.Wanted))
}

// Yields is true: each unit may go.
func (LRU) Yields(_, _ *Item) bool { return true }

// Newest evicts as LRU does, and fetches by priority, then what was wanted last.
type Newest struct{ LRU }

var _ Order = Newest{}

// FetchFirst is the higher priority, then the later want.
func (Newest) FetchFirst(a, b *Item) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.Wanted, a.Wanted))
}

// LFU evicts what was used least often, evictions notwithstanding, as MoE-Infinity does, and
// fetches as LRU does.
type LFU struct {
	LRU
	*Outlook
}

var _ Order = LFU{}

// EvictFirst is the one with fewer visits.
func (f LFU) EvictFirst(a, b *Item) int {
	return cmp.Compare(f.Frequency(a.Unit), f.Frequency(b.Unit))
}
