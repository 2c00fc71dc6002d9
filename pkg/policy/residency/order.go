package residency

import (
	"cmp"
	"fmt"
	"strings"
)

// Order is how a policy ranks units. It may know more of them than an Item says; when
// what it knows changes, Machine.Rerank makes it count. Items are read only.
type Order interface {
	// EvictFirst is negative if a is evicted before b.
	EvictFirst(a, b *Item) int
	// FetchFirst is negative if a is fetched before b, which is as urgent.
	FetchFirst(a, b *Item) int
	// Yields says whether a unit that nobody refers to may go for one that is wanted.
	Yields(idle, to *Item) bool
}

// orders are those that an operator can name; the first is the default.
var orders = []struct {
	name string
	Order
}{
	{"lru", LRU{}},
}

// Names are the orders that Named knows.
func Names() (names []string) {
	for _, one := range orders {
		names = append(names, one.name)
	}
	return names
}

// Named is the order of a name.
func Named(name string) (Order, error) {
	for _, one := range orders {
		if one.name == name {
			return one.Order, nil
		}
	}
	return nil, fmt.Errorf("there is no order of eviction %q; there is %s", name, strings.Join(Names(), ", "))
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
