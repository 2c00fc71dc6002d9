package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// execute runs a layer: the clock moves by its time.
func (e *engine) execute(l int) error {
	y, loads := &e.layers[l], e.work.Loads(l)
	if err := e.fail(); err != nil {
		return err
	}
	e.expire(y)
	for x, n := range loads {
		if n > 0 && !y.resident(x) {
			if err := e.wake(y, x, loads); err != nil {
				return fmt.Errorf("layer %d: %w", l, err)
			}
		}
	}
	e.divide(y, loads, l)
	seconds, byReplica := e.time(y)
	e.bill(y, seconds, byReplica)
	e.now += seconds
	e.swap(y)
	e.now += e.Other
	return nil
}

// divide gives the layer's rows to replicas that are ready, as the policy divides them.
func (e *engine) divide(y *layer, loads []uint32, l int) {
	e.asked = e.asked[:0]
	for x, n := range loads {
		one := divide.Expert{Rows: int(n)}
		if n > 0 {
			one.Hosts = e.on(y, x)
		}
		e.asked = append(e.asked, one)
	}
	if e.policy.Divides {
		e.shares = e.divider.Least(e.shares[:0], e.asked)
	} else {
		e.shares = divide.Even(e.shares[:0], e.asked, l)
	}
	for _, s := range e.shares {
		y.replicas[y.find(s.Expert, s.Host)].rows = s.Rows
	}
	e.places = e.places[:0]
}

// on are the hosts of the replicas that serve an expert.
func (e *engine) on(y *layer, expert int) []int {
	e.serving = y.serving(expert, e.now, e.serving[:0])
	if y.replicas[e.serving[0]].ready > e.now {
		e.result.Waits++
	}
	first := len(e.places)
	for _, at := range e.serving {
		e.places = append(e.places, y.replicas[at].host)
	}
	on := e.places[first:len(e.places):len(e.places)]
	if at := slices.Index(on, divide.Home(expert, e.Hosts)); at > 0 {
		on[0], on[at] = on[at], on[0]
	}
	return on
}

// wake loads an expert that is nowhere, for rows that are there already, on the
// host with room whose link is free first. If all are full, a replica leaves that
// no rows of now need, at best one that is not wanted.
func (e *engine) wake(y *layer, expert int, loads []uint32) error {
	for _, wanted := range []bool{false, true} {
		y.yields = func(r *replica) bool {
			return r.wanted == wanted && (loads[r.expert] == 0 || y.copies(r.expert) > 1)
		}
		best := -1
		for _, h := range e.there {
			if (best < 0 || e.links[h] < e.links[best]) && y.tiers[h].Fits(y.want(expert, residency.Demanded)) {
				best = h
			}
		}
		if best >= 0 {
			e.load(y, expert, best, e.now, residency.Demanded)
			return nil
		}
	}
	if len(e.there) == 0 {
		return fmt.Errorf("expert %d is on no host, and all %d are gone", expert, e.Hosts)
	}
	return fmt.Errorf("expert %d is on no host, and all hold %d experts of the layer that have rows now", expert, y.slots)
}

// time is how long the layer takes: by hosts, and by replicas as the paper prints it.
func (e *engine) time(y *layer) (byHost, byReplica float64) {
	if e.policy.Lossy {
		return e.evenly(y)
	}
	clear(e.rows)
	clear(e.waits)
	clear(e.busy)
	most, sent := 0, 0
	for i := range y.replicas {
		r := &y.replicas[i]
		if r.rows == 0 {
			continue
		}
		wait, takes := max(0, r.ready-e.now), e.takes.Seconds(e.Model.Profile.Of(r.rows))
		byReplica = max(byReplica, wait+takes+e.takes.Call)
		if e.Apart {
			takes += e.takes.Call
			sent++
		}
		e.rows[r.host] += r.rows
		e.busy[r.host] += takes
		e.waits[r.host] = max(e.waits[r.host], wait)
	}
	call := e.call()
	for h, n := range e.rows {
		if n > 0 {
			byHost = max(byHost, e.waits[h]+e.busy[h]+call)
			most = max(most, n)
			if !e.Apart {
				sent++
			}
		}
	}
	there := e.messages(e.Model.Profile).Seconds(sent, most)
	return byHost + there, byReplica + there
}

// call is what a host's call takes beside what each replica is busy.
func (e *engine) call() float64 {
	if e.Apart {
		return 0 // it is in busy
	}
	return e.takes.Call
}

// evenly is the least that the layer's rows can take, were the hosts equally busy: an
// expert's weights are read once, whoever does it. No division of rows beats it, as a
// second replica reads them again.
func (e *engine) evenly(y *layer) (byHost, byReplica float64) {
	busy, all, experts := 0.0, 0, 0
	for at := 0; at < len(y.replicas); {
		expert, rows := y.replicas[at].expert, 0
		for ; at < len(y.replicas) && y.replicas[at].expert == expert; at++ {
			rows += y.replicas[at].rows
		}
		busy += e.takes.Seconds(e.Model.Profile.Of(rows))
		all += rows
		if rows > 0 {
			experts++
		}
	}
	if all == 0 {
		return 0, 0
	}
	m := e.messages(e.Model.Profile)
	t := e.takes.Call + (busy+m.Row*float64(all))/float64(len(e.there)) + m.Seconds(min(experts, len(e.there)), 0)
	return t, t
}

// bill adds what the layer cost, and counts what ran.
func (e *engine) bill(y *layer, seconds, byReplica float64) {
	used, rows := 0, 0
	for i := range y.replicas {
		r := &y.replicas[i]
		rows += r.rows
		if r.wanted || r.rows > 0 {
			used++
			r.billed = e.now + seconds
		}
		if r.rows > 0 {
			r.used = e.now + seconds
			e.serve(r, seconds)
		}
		r.rows = 0
	}
	e.result.add(seconds, byReplica, used, rows)
	if !e.policy.Serverful {
		e.result.Cost += meter.Layer(seconds, float64(used)*float64(y.bytes))
	}
}

// expire frees, without servers, what had no rows for the keep-alive.
func (e *engine) expire(y *layer) {
	if e.policy.Serverful {
		return
	}
	for i := len(y.replicas) - 1; i >= 0; i-- {
		r := y.replicas[i]
		if end := max(r.used+e.stays(y, &r), r.billed); end < e.now {
			e.evict(y, i, end)
		}
	}
}

// stays is for how many seconds a replica stays without rows. Where rows are divided only if
// that pays, an expert's home is no copy: without it another host had two experts to read.
func (e *engine) stays(y *layer, r *replica) float64 {
	keep := e.policy.Stay(e.KeepAlive, y.number, len(e.layers))
	own := cmp.Or(y.keep, e.policy.KeepAlive)
	if own == 0 || y.copies(r.expert) == 1 || e.policy.Divides && divide.Home(r.expert, e.Hosts) == r.host {
		return keep
	}
	return min(keep, own)
}

// swap frees, with servers, what is not wanted any more, once all that is is ready.
func (e *engine) swap(y *layer) {
	for _, r := range y.replicas {
		if !e.policy.Serverful || r.wanted && r.ready > e.now {
			return
		}
	}
	for i := len(y.replicas) - 1; i >= 0; i-- {
		if !y.replicas[i].wanted {
			e.evict(y, i, e.now)
		}
	}
}

// finish bills what is resident at the end.
func (e *engine) finish() *Result {
	for l := range e.layers {
		for i := range e.layers[l].replicas {
			e.leave(&e.layers[l].replicas[i], e.now)
		}
	}
	e.result.Elapsed, e.result.Memory = e.now, e.meter.Read(e.now)
	e.result.Resident, e.result.ColdStarts = e.result.Memory.Held(), int(e.result.Memory.Begun)
	e.result.Peak = float64(e.result.Memory.Peak) / 1e9
	if e.policy.Serverful {
		e.result.Cost = meter.Serverful(e.result.Memory)
	}
	e.result.sort()
	return &e.result
}
