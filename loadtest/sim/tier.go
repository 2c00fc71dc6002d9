package sim

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// order ranks a layer's replicas on a host: the one that had rows least recently makes
// room first, if what makes room now may do without it.
type order struct {
	residency.LRU
	y    *layer
	host int
}

func (o order) replica(i *residency.Item) *replica {
	return &o.y.replicas[o.y.find(i.Unit.Index, o.host)]
}

// EvictFirst is the one that had rows least recently.
func (o order) EvictFirst(a, b *residency.Item) int {
	return cmp.Or(cmp.Compare(o.replica(a).used, o.replica(b).used), cmp.Compare(a.Unit.Index, b.Unit.Index))
}

// Yields asks what makes room.
func (o order) Yields(idle, _ *residency.Item) bool { return o.y.yields(o.replica(idle)) }

// fill tells the layer's share of each host's memory what it holds.
func (y *layer) fill(hosts int) {
	y.tiers = make([]*residency.Machine, hosts)
	for h := range y.tiers {
		y.tiers[h] = residency.New(residency.Settings{Budget: int64(y.slots) * y.bytes, Order: order{y: y, host: h}})
	}
	for _, r := range y.replicas {
		m := y.tiers[r.host]
		m.Want(y.want(r.expert, residency.Planned))
		m.Loaded(at(r.expert))
		m.Release(at(r.expert))
		for _, ok := m.Next(); ok; _, ok = m.Next() {
		}
	}
}

func at(expert int) unit.Unit { return unit.Expert(0, expert) }

func (y *layer) want(expert int, u residency.Urgency) residency.Want {
	return residency.Want{Unit: at(expert), Bytes: y.bytes, Urgency: u}
}

// load begins to load a replica, unless the host has no room for it: its transfer waits
// for the cold start and for the host's link. A decision may want more of a layer than its
// share of the host's memory, or an expert twice on a host; it gets what there is.
func (e *engine) load(y *layer, expert, host int, from float64, u residency.Urgency) {
	m := y.tiers[host]
	m.Rerank() // rows have come
	m.Want(y.want(expert, u))
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		switch a.Kind {
		case residency.Evict:
			e.drop(y, y.find(a.Unit.Index, host), e.now)
			m.Evicted(a.Unit)
		case residency.Load:
			e.links[host] = e.Model.Profile.Link().Done(from, e.links[host], e.Model.Profile.ExpertBytes.Value)
			r := replica{expert: expert, host: host, ready: e.links[host], used: from, wanted: true}
			e.meter.Take(&r.unit, y.number, y.bytes, from)
			y.insert(r)
			if u == residency.Demanded {
				e.meter.ColdStart()
			}
			m.Loaded(a.Unit) // its time is the replica's
		case residency.Ready, residency.Refuse, residency.Resume, residency.Cancel:
		}
	}
	m.Release(at(expert))
}

// evict frees a replica's memory.
func (e *engine) evict(y *layer, i int, when float64) {
	r := y.replicas[i]
	m := y.tiers[r.host]
	m.Evict(at(r.expert))
	for _, ok := m.Next(); ok; _, ok = m.Next() {
		m.Evicted(at(r.expert))
	}
	e.drop(y, i, when)
}

// drop ends a replica whose memory is free.
func (e *engine) drop(y *layer, i int, when float64) {
	e.leave(&y.replicas[i], when)
	expert := y.replicas[i].expert
	y.replicas = slices.Delete(y.replicas, i, i+1)
	y.shift(expert, -1)
}

// leave tells the meter that a replica's memory is free, and of its load's end if that was
// before.
func (e *engine) leave(r *replica, when float64) {
	if r.ready <= when {
		e.meter.Hold(&r.unit, r.ready)
	}
	e.meter.Drop(&r.unit, when)
}

// serve tells the meter of the rows that a replica has in the layer that runs: its host is
// done with them when it is with all that it has, a lossy policy's when all are.
func (e *engine) serve(r *replica, seconds float64) {
	begin, end := max(e.now, r.ready), e.now+seconds
	if !e.policy.Lossy {
		end = e.now + e.waits[r.host] + e.busy[r.host] + e.call()
	}
	e.meter.Hold(&r.unit, r.ready)
	e.meter.Serve(&r.unit, e.now, begin, end)
}
