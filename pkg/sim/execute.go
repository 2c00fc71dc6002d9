package sim

import "fmt"

// execute runs a layer: the clock moves by its time.
func (e *engine) execute(i, l int) error {
	y, loads := &e.layers[l], e.work.Loads(i, l)
	e.expire(y)
	for x, n := range loads {
		if n > 0 && !y.resident(x) {
			if err := e.wake(y, x, loads); err != nil {
				return fmt.Errorf("layer %d: %w", l, err)
			}
		}
	}
	for x, n := range loads {
		e.spread(y, x, int(n), x+l)
	}
	seconds, byReplica := e.time(y)
	e.bill(y, seconds, byReplica)
	e.now += seconds
	e.swap(y)
	e.now += e.Other
	return nil
}

// spread splits an expert's rows evenly over its replicas that are ready. Which of
// them get the rows that are left over differs by expert and layer.
func (e *engine) spread(y *layer, expert, n, turn int) {
	if n == 0 {
		return
	}
	e.serving = y.serving(expert, e.now, e.serving[:0])
	to := e.serving
	if y.replicas[to[0]].ready > e.now {
		e.result.Waits++
	}
	for i, at := range to {
		y.replicas[at].rows = n / len(to)
		if (i+turn)%len(to) < n%len(to) {
			y.replicas[at].rows++
		}
	}
}

// wake loads an expert that is nowhere, for rows that are there already, on the
// host with room whose link is free first. If all are full, a replica leaves that
// no rows of now need, at best one that is not wanted.
func (e *engine) wake(y *layer, expert int, loads []uint32) error {
	for _, wanted := range []bool{false, true} {
		best := -1
		for h := range e.Hosts {
			if (y.held(h) < y.slots || y.spare(h, loads, wanted) >= 0) && (best < 0 || e.links[h] < e.links[best]) {
				best = h
			}
		}
		if best < 0 {
			continue
		}
		if y.held(best) >= y.slots {
			e.evict(y, y.spare(best, loads, wanted), e.now)
		}
		e.load(y, expert, best, e.now)
		return nil
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
	alpha, beta := e.Model.Profile.Alpha.Value, e.Model.Profile.Beta.Value
	most := 0
	for i := range y.replicas {
		r := &y.replicas[i]
		if r.rows == 0 {
			continue
		}
		wait := max(0, r.ready-e.now)
		byReplica = max(byReplica, wait+alpha*float64(r.rows))
		e.rows[r.host] += r.rows
		e.waits[r.host] = max(e.waits[r.host], wait)
	}
	for h, n := range e.rows {
		byHost = max(byHost, e.waits[h]+alpha*float64(n))
		most = max(most, n)
	}
	there := 2 * beta * float64(most)
	return byHost + there, byReplica + there
}

// evenly is the time of the layer's rows when all hosts get equally many.
func (e *engine) evenly(y *layer) (byHost, byReplica float64) {
	rows := 0
	for i := range y.replicas {
		rows += y.replicas[i].rows
	}
	p := e.Model.Profile
	t := float64(rows) / float64(e.Hosts) * (p.Alpha.Value + 2*p.Beta.Value)
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
		}
		r.rows = 0
	}
	e.result.add(seconds, byReplica, used, rows)
	if !e.policy.Serverful {
		e.result.Cost += seconds * float64(used) * e.gigabytes()
	}
}

func (e *engine) gigabytes() float64 { return e.Model.Profile.ExpertBytes.Value / 1e9 }

// expire frees, without servers, what had no rows for the keep-alive.
func (e *engine) expire(y *layer) {
	if e.policy.Serverful {
		return
	}
	for i := len(y.replicas) - 1; i >= 0; i-- {
		r := y.replicas[i]
		if end := max(r.used+e.KeepAlive, r.billed); end < e.now {
			e.evict(y, i, end)
		}
	}
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

// evict frees a replica's memory.
func (e *engine) evict(y *layer, at int, when float64) {
	e.result.Resident += max(0, when-y.replicas[at].since) * e.gigabytes()
	y.remove(at)
}

// finish bills what is resident at the end.
func (e *engine) finish() *Result {
	for l := range e.layers {
		for _, r := range e.layers[l].replicas {
			e.result.Resident += max(0, e.now-r.since) * e.gigabytes()
		}
	}
	e.result.Elapsed = e.now
	if e.policy.Serverful {
		e.result.Cost = e.result.Resident
	}
	e.result.sort()
	return &e.result
}
