package elastic

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// fleet is the hosts while a plan is decided on. All experts take the same bytes,
// so that a host has slots: it holds so many experts of whatever layer.
type fleet struct {
	hosts []host // by their ids
	index map[string]int
	cool  []int // those that do not throttle
	// holders are those with slots.
	holders []int
	// refused are the refusals that are believed.
	refused map[refusal]float64
}

// host is one of them, named by its place in the fleet.
type host struct {
	id    string
	slots int
	// used are slots that experts need who are in the group, cold ones too: their
	// first rows must find room. Those of loaded replicas that are not used are not
	// among them: they give way.
	used int
	kept int
	// full says that it has refused something lately: it gets nothing more.
	full bool
	// throttles says that its device is slowed; see plan.Host.
	throttles bool
	// idle says that nothing was planned on it in any layer.
	idle bool
}

func (h *host) free() int {
	if h.full {
		return 0
	}
	return max(0, h.slots-h.used)
}

// noLimit is more slots than are ever used.
const noLimit = math.MaxInt32

func newFleet(all []plan.Host, expertBytes uint64) *fleet {
	f := &fleet{index: make(map[string]int, len(all))}
	for _, h := range all {
		slots := noLimit
		if h.Budget > 0 {
			slots = int(min(h.Budget/max(1, expertBytes), noLimit))
		}
		f.hosts = append(f.hosts, host{id: h.ID, slots: slots, throttles: h.Throttles, idle: true})
	}
	slices.SortFunc(f.hosts, func(a, b host) int { return cmp.Compare(a.id, b.id) })
	for i, h := range f.hosts {
		f.index[h.id] = i
		if h.slots > 0 {
			f.holders = append(f.holders, i)
		}
		if !h.throttles {
			f.cool = append(f.cool, i)
		}
	}
	return f
}

// spare is how many slots are left beside so many experts, and how many hosts
// can take any.
func (f *fleet) spare(experts int) (slots, able int) {
	total := int64(-experts)
	for i := range f.hosts {
		if h := &f.hosts[i]; h.full {
			total += int64(h.used)
		} else if h.slots > 0 {
			total += int64(h.slots)
			able++
		}
	}
	return int(max(0, total)), able
}

// refusal is a function that a host has refused for want of memory.
type refusal struct{ host, function string }

// refusedFor is for how many seconds a host that has refused a function gets no
// more than it has.
const refusedFor = 30

// Refused takes note that a host has no room for a function, whatever memory it
// says that it has.
func (c *Core) Refused(now float64, host, function string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[refusal{host, function}] = c.at(now)
}

// markFull marks the hosts that have refused something lately. If all have that have slots,
// nobody else can have what they refused: it stays where it is, and its rows wait or go to
// whoever borrows it.
func (f *fleet) markFull(refused map[refusal]float64, now float64) {
	f.refused = refused
	for r, when := range refused {
		if now-when > refusedFor {
			delete(refused, r)
		} else if h, here := f.index[r.host]; here {
			f.hosts[h].full = true
		}
	}
	if !slices.ContainsFunc(f.hosts, func(h host) bool { return h.slots > 0 && !h.full }) {
		f.refused = nil
		for i := range f.hosts {
			f.hosts[i].full = false
		}
	}
}
