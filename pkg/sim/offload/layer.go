package offload

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// look sends what the predictor says at the layer to the hosts.
func (e *engine) look() error {
	looks := e.f.At(e.step, e.layer)
	if len(looks) == 0 {
		return nil
	}
	delay := e.Delay
	if e.layer < 0 {
		delay = e.First
	}
	if !e.policy.Synchronous {
		for i := range looks {
			e.send(arrival{e.now + delay, e.step, &looks[i]})
		}
		return nil
	}
	if err := e.advance(e.now + delay); err != nil {
		return err
	}
	for i := range looks {
		e.arrive(arrival{e.now, e.step, &looks[i]})
	}
	return e.until(func() bool { return e.outstanding() == 0 && (e.layer < 0 || e.pending == e.settled()) })
}

// send puts a prediction in the line of those that arrive.
func (e *engine) send(a arrival) {
	at := len(e.hints)
	for at > 0 && e.hints[at-1].at > a.at {
		at--
	}
	e.hints = slices.Insert(e.hints, at, a)
}

// outstanding are the hints whose loads have not ended.
func (e *engine) outstanding() (n int) {
	for h := range e.hosts {
		for _, i := range e.hosts[h].hinted {
			if e.units[i].hinted {
				n++
			}
		}
	}
	return n
}

// settled are the demanded units that could compute, and those that wait for others' room.
func (e *engine) settled() (n int) {
	for h := range e.hosts {
		n += len(e.hosts[h].ready) + len(e.hosts[h].refused)
	}
	return n
}

// pass takes the step through a layer.
func (e *engine) pass(layer, rows int) error {
	beside := e.DecodeLayer
	if e.phase == &e.r.Prefill {
		beside = e.PrefillLayer
	}
	if err := e.advance(e.now + e.reads(e.w.LayerBytes, rows) + beside); err != nil {
		return err
	}
	e.layer = layer
	began := e.now
	if e.policy.Whole {
		e.now += e.ideal(layer)
		e.count(layer)
		return nil
	}
	e.outlook.At(0, layer)
	e.hold = e.policy.Synchronous
	for h := range e.hosts {
		e.hosts[h].m.Rerank()
		e.hosts[h].called = false
	}
	e.demand(layer)
	e.drop(layer)
	if err := e.look(); err != nil {
		return err
	}
	e.hold = false
	for h := range e.hosts {
		e.hosts[h].takeReady()
	}
	if err := e.until(func() bool { return e.pending == 0 }); err != nil {
		return err
	}
	end := e.now
	for h := range e.hosts {
		if e.hosts[h].called {
			end = max(end, e.hosts[h].free)
		}
	}
	if err := e.advance(end); err != nil {
		return err
	}
	e.phase.Stall += max(0, e.now-began-e.ideal(layer))
	return nil
}

// demand asks hosts for all experts that have rows: first for those that are held, so that
// none of them goes for another one that rows wait for.
func (e *engine) demand(layer int) {
	asked := make([]bool, e.w.Experts)
	for _, held := range []bool{true, false} {
		for x, n := range e.w.Loads(e.step, layer) {
			i := layer*e.w.Experts + x
			if n == 0 || asked[x] || held && !e.host(i).holds(i) {
				continue
			}
			asked[x], e.units[i].demanded = true, true
			e.pending++
			e.host(i).demand(i)
		}
	}
	for h := range e.hosts {
		e.hosts[h].pace()
	}
}

// count counts a layer's demands as hits, where all is held.
func (e *engine) count(layer int) {
	for _, n := range e.w.Loads(e.step, layer) {
		if n > 0 {
			e.phase.Hits++
		}
	}
}

// drop gives up hints for layers that are reached.
func (e *engine) drop(layer int) {
	for h := range e.hosts {
		e.hosts[h].drop(layer)
		e.hosts[h].again()
	}
}

// ideal is what a layer's experts take if all are held.
func (e *engine) ideal(layer int) (most float64) {
	busy := make([]float64, e.Hosts)
	for x, n := range e.w.Loads(e.step, layer) {
		if n == 0 {
			continue
		}
		h := e.At(layer, x, e.w.Experts)
		if busy[h] == 0 {
			busy[h] = e.Device.Call
		}
		busy[h] += e.Device.Seconds(cost.Access{Bytes: e.w.ExpertBytes, Rows: int(n)})
		most = max(most, busy[h])
	}
	return most
}

// arrive lets hosts know of a prediction.
func (e *engine) arrive(a arrival) {
	look, due := a.look, a.step
	if look.Next {
		due++
	}
	if due < e.step || due == e.step && look.Target <= e.layer {
		e.r.Dropped += len(look.Fetch)
		return
	}
	if look.Told != nil {
		e.outlook.Tell(0, look.Target, look.Told)
	}
	for _, h := range look.Fetch {
		e.outlook.Await(e.unit(look.Target*e.w.Experts + h.Expert))
	}
	e.rerank()
	if e.policy.Distance < 0 {
		return
	}
	for _, h := range look.Fetch {
		i := look.Target*e.w.Experts + h.Expert
		e.units[i].due = due
		next := look.Target-e.layer+(due-e.step)*e.w.Layers == 1
		soon := next && e.policy.Soon > 0 && float64(h.Chance) >= e.policy.Soon && e.phase == &e.r.Decode
		e.host(i).hint(i, soon)
	}
}

func (e *engine) rerank() {
	for h := range e.hosts {
		e.hosts[h].m.Rerank()
	}
}
