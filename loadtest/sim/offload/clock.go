package offload

import "math"

// event is what happens next.
type event struct {
	at   float64
	host *host // nil: a prediction arrives
	link bool  // the host's link is done with a piece or a load; else its call has ended
}

// slowest is the bytes a second below which a link stands still.
const slowest = 1

// next is the event that comes first.
func (e *engine) next() event {
	first := event{at: math.Inf(1)}
	if len(e.hints) > 0 {
		first.at = e.hints[0].at
	}
	demanded, ahead := e.rates()
	for h := range e.hosts {
		host := &e.hosts[h]
		if host.calls && host.until < first.at {
			first = event{host.until, host, false}
		}
		if host.running != none {
			left, rate := max(0, host.left()), host.rate(demanded, ahead)
			if rate < slowest && left > 0 {
				continue
			}
			if at := e.now + left/max(rate, slowest); at < first.at {
				first = event{at, host, true}
			}
		}
	}
	return first
}

// rates are the bytes a second that a busy link moves, if rows wait for its load, and if none
// do. Where links have a bound together, rows' loads share that, and others get what they leave.
func (e *engine) rates() (demanded, ahead float64) {
	if e.Shared == 0 {
		return e.Link.Bandwidth, e.Link.Bandwidth
	}
	var rows, others int
	for h := range e.hosts {
		switch i := e.hosts[h].running; {
		case i == none || e.units[i].fetching:
		case e.units[i].demanded:
			rows++
		default:
			others++
		}
	}
	demanded = min(e.Link.Bandwidth, e.Shared/float64(max(1, rows)))
	left := e.Shared - demanded*float64(rows)
	return demanded, max(0, min(e.Link.Bandwidth, left/float64(max(1, others))))
}

// rate is that of a host's link, of those.
func (h *host) rate(demanded, ahead float64) float64 {
	if s := &h.units[h.running]; s.fetching {
		if h.below.at == h {
			return h.Below.Link.Bandwidth
		}
		return 0
	}
	if h.units[h.running].demanded {
		return demanded
	}
	return ahead
}

// flow lets time pass, with no event before.
func (e *engine) flow(to float64) {
	demanded, ahead := e.rates()
	for h := range e.hosts {
		if host := &e.hosts[h]; host.running != none {
			moved := min(max(0, host.left()), (to-e.now)*host.rate(demanded, ahead))
			e.units[host.running].moved += moved
			if !e.units[host.running].fetching {
				e.phase.busy[h] += moved
			}
		}
	}
	e.now = max(e.now, to)
}

// happen takes an event in.
func (e *engine) happen(next event) {
	e.flow(next.at)
	switch {
	case next.host == nil:
		a := e.hints[0]
		e.hints = e.hints[1:]
		e.arrive(a)
	case next.link:
		next.host.moved()
	default:
		next.host.computed()
	}
}

// advance lets all happen that does up to a time.
func (e *engine) advance(until float64) error {
	for {
		next := e.next()
		if next.at > until {
			break
		}
		e.happen(next)
	}
	e.flow(until)
	return nil
}

// until lets things happen until it is so.
func (e *engine) until(so func() bool) error {
	for !so() {
		next := e.next()
		if math.IsInf(next.at, 1) {
			return ErrStuck
		}
		e.happen(next)
	}
	return nil
}
