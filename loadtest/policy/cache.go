package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// CacheNames are the orders of eviction of which Cache counts loads.
var CacheNames = []string{"belady", "lru", "lfu"}

// Cached is what is printed of accesses to a cache.
type Cached struct {
	Loads int `json:"loads"` // accesses whose expert is not in the cache
}

// Cache counts what a host with room for capacity experts loads for accesses that come one after
// the other.
func Cache(name string, in io.Reader) (*Cached, error) {
	if !slices.Contains(CacheNames, name) {
		return nil, fmt.Errorf("--name: %w: %q evicts nothing here; there are %s", registry.ErrUnknown, name, strings.Join(CacheNames, ", "))
	}
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	r.object(v, "capacity", "accesses")
	capacity, ids := r.count(v, "capacity", true), r.ids(v, "accesses")
	if capacity == 0 {
		r.fail("capacity", "is 0; it must be 1 or more")
	}
	if r.err != nil {
		return nil, r.err
	}
	c, err := newCache(name, ids)
	if err != nil {
		return nil, err
	}
	return &Cached{c.loads(capacity)}, nil
}

func (r *reader) ids(v value, name string) (list []uint32) {
	for _, one := range r.list(v, name, true) {
		text, ok := one.token.(json.Number)
		id, err := strconv.ParseUint(text.String(), 10, 32)
		if !ok || err != nil {
			r.fail(one.path, "must be the id of an expert, a whole number from 0 to 4294967295")
		}
		list = append(list, uint32(id))
	}
	return list
}

// cache is a host's residency of one layer, whose experts are numbered in the order of their ids.
type cache struct {
	accesses []int
	next     []int // when the expert of an access is accessed again
	at       []int // the last access of an expert, so far
	outlook  *residency.Outlook
	order    residency.Order
}

func newCache(name string, ids []uint32) (*cache, error) {
	distinct := slices.Compact(slices.Sorted(slices.Values(ids)))
	c := &cache{accesses: make([]int, len(ids)), next: make([]int, len(ids)), at: make([]int, len(distinct))}
	for i, id := range ids {
		c.accesses[i], _ = slices.BinarySearch(distinct, id)
	}
	later := slices.Repeat([]int{len(ids)}, len(distinct))
	for i, e := range slices.Backward(c.accesses) {
		c.next[i], later[e] = later[e], i
	}
	outlook, err := residency.NewOutlook(1, max(1, len(distinct)), 1, 1)
	if err != nil {
		return nil, err
	}
	c.outlook = outlook
	switch name {
	case "belady":
		c.order = residency.Belady{Next: func(u unit.Unit) int { return c.next[c.at[u.Index]] }}
	case "lru":
		c.order = residency.LRU{}
	default:
		c.order = lowerFirst{residency.LFU{Outlook: c.outlook}}
	}
	return c, nil
}

// lowerFirst is an order that evicts the lower id of what it makes equal.
type lowerFirst struct{ residency.Order }

func (l lowerFirst) EvictFirst(a, b *residency.Item) int {
	return cmp.Or(l.Order.EvictFirst(a, b), a.Unit.Index-b.Unit.Index)
}

// loads plays all accesses.
func (c *cache) loads(capacity int) (n int) {
	m := residency.New(residency.Settings{Budget: int64(capacity), Order: c.order})
	for i, e := range c.accesses {
		u := unit.Expert(0, e)
		c.at[e] = i
		m.Want(residency.Want{Unit: u, Bytes: 1, Urgency: residency.Demanded})
		for a, ok := m.Next(); ok; a, ok = m.Next() {
			switch a.Kind {
			case residency.Load:
				n++
				m.Loaded(a.Unit)
			case residency.Evict:
				m.Evicted(a.Unit)
			}
		}
		c.outlook.Visit(u)
		m.Release(u)
	}
	return n
}

// Shared is what is printed of loads that replicas share.
type Shared struct {
	Groups   [][]int `json:"groups"` // of each replica, by the places of loads
	Makespan float64 `json:"makespan"`
}

// LPT shares loads among replicas by Longest Processing Time.
func LPT(in io.Reader) (*Shared, error) {
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	r.object(v, "loads", "replicas")
	loads, replicas := r.floats(v, "loads"), r.upTo(v, "replicas", mostReplicas)
	for i, load := range loads {
		if load > scale.MostRows {
			r.fail(fmt.Sprintf("loads[%d]", i), "is %g; it must be at most %d", load, int64(scale.MostRows))
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	groups, makespan, err := serverless.Partition(loads, replicas)
	if err != nil {
		return nil, r.checked(err)
	}
	for i := range groups {
		if groups[i] == nil {
			groups[i] = []int{}
		}
	}
	return &Shared{groups, makespan}, nil
}

// mostReplicas bounds what is printed.
const mostReplicas = 1 << 16
