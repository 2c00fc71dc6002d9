package requests

import (
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/batching"
)

// request is one that is served.
type request struct {
	place
	prompt, answer int
	done           int // rows that are computed
	arrived        float64
	first, last    float64 // when its first and its last token came; 0 is not yet
	flying         int     // rows in the batch that runs
}

// decoding reports whether the prompt is computed.
func (r *request) decoding() bool { return r.done >= r.prompt }

// ended reports whether all tokens are there: the last one's row is never computed.
func (r *request) ended() bool { return r.done == r.prompt+r.answer-1 }

// source serves requests in batches, as the engine's clock says.
type source struct {
	Settings
	tape     *Tape
	known    []float64
	requests []request
	arrived  int        // of requests, by time
	waiting  []*request // for a seat
	order    []*request // those with a seat; who had its turn longest ago is first
	pace     batching.Pace
	items    []batching.Item
	takes    []batching.Take
	loads    []uint32
	batch    batch
	phases   phases
	behind   float64
	ended    float64
}

// batch is what runs.
type batch struct {
	began           float64
	rows, prompts   int
	finishedPrompts int
}

// phases are the seconds and the numbers of batches with prompts, and of those without.
type phases struct {
	prefill, decode   float64
	prefills, decodes int
}

func newSource(s Settings, t *Tape, rs, before []trace.Request) *source {
	y := &source{Settings: s, tape: t, loads: make([]uint32, t.Layers*t.Experts), known: t.Known(before)}
	for i, q := range rs {
		at := s.Idle.shift(q.At.Seconds() / s.Rate)
		y.requests = append(y.requests, request{place: t.of(i, q), prompt: max(1, q.Context), answer: max(1, q.Generated), arrived: at})
	}
	return y
}

// Next ends the batch that ran, and makes the next one: at once, or when a request arrives.
func (y *source) Next(now float64) (sim.Iteration, bool) {
	y.settle(now)
	for {
		y.ended = now
		y.admit(now)
		if now > y.end() {
			return sim.Iteration{}, false
		}
		if y.next() {
			y.batch.began = now
			return sim.Iteration{Due: now, Rows: y.batch.rows, Waiting: y.backlog()}, true
		}
		if y.arrived == len(y.requests) {
			return sim.Iteration{}, false
		}
		now = y.requests[y.arrived].arrived
	}
}

// Loads are a layer's in the batch that runs.
func (y *source) Loads(layer int) []uint32 {
	return y.loads[layer*y.tape.Experts : (layer+1)*y.tape.Experts]
}

// Known is what policies have seen of a layer before.
func (y *source) Known(layer int) []float64 {
	return y.known[layer*y.tape.Experts : (layer+1)*y.tape.Experts]
}

// end is when the run is given up.
func (y *source) end() float64 {
	if len(y.requests) == 0 {
		return 0
	}
	return y.requests[len(y.requests)-1].arrived + y.Drain.Seconds()
}

// settle takes in what a batch made.
func (y *source) settle(now float64) {
	if y.batch.rows == 0 {
		return
	}
	took := now - y.batch.began
	if y.batch.prompts > 0 {
		y.phases.prefill += took
		y.phases.prefills++
		y.pace.Observe(y.batch.rows, took, y.batch.finishedPrompts, 0)
	} else {
		y.phases.decode += took
		y.phases.decodes++
	}
	kept := y.order[:0]
	for _, r := range y.order {
		r.take(now)
		if !r.ended() {
			kept = append(kept, r)
		}
	}
	clear(y.order[len(kept):])
	y.order, y.batch = kept, batch{}
}

// take takes the rows in that were computed.
func (r *request) take(now float64) {
	if r.flying == 0 {
		return
	}
	r.done += r.flying
	r.flying = 0
	if r.decoding() {
		if r.first == 0 {
			r.first = now
		}
		r.last = now
	}
}

// admit seats what has arrived.
func (y *source) admit(now float64) {
	for ; y.arrived < len(y.requests) && y.requests[y.arrived].arrived <= now; y.arrived++ {
		y.waiting = append(y.waiting, &y.requests[y.arrived])
		if y.arrived == len(y.requests)-1 {
			y.behind = y.oldest(now)
		}
	}
	n := min(len(y.waiting), max(0, y.MaxSequences-len(y.order)))
	y.order = append(y.order, y.waiting[:n]...)
	y.waiting = y.waiting[n:]
}

// oldest is for how long the request has waited that waits longest for its first token.
func (y *source) oldest(now float64) (seconds float64) {
	for _, of := range [][]*request{y.order, y.waiting} {
		for _, r := range of {
			if r.first == 0 {
				seconds = max(seconds, now-r.arrived)
			}
		}
	}
	return seconds
}

// next makes a batch, and reports whether there is one.
func (y *source) next() bool {
	y.items = y.items[:0]
	decoding := 0
	for _, r := range y.order {
		it := batching.Item{}
		if r.decoding() {
			decoding++
		} else {
			it.Prefill, it.Scored = r.prompt-r.done, 1
		}
		y.items = append(y.items, it)
	}
	y.takes = y.Batching.Next(y.items, decoding, &y.pace, y.takes)
	if len(y.takes) == 0 {
		return false
	}
	clear(y.loads)
	for _, t := range y.takes {
		y.put(y.order[t.Index], t.Rows)
	}
	y.rotate()
	return true
}

// put takes rows of a request into the batch.
func (y *source) put(r *request, rows int) {
	y.tape.add(y.loads, r.place, r.done, rows)
	r.flying = rows
	y.batch.rows += rows
	if !r.decoding() {
		y.batch.prompts += rows
		if r.done+rows == r.prompt {
			y.batch.finishedPrompts++
		}
	}
}

// backlog are the requests that have come, and have no row in a batch yet.
func (y *source) backlog() (n int) {
	for _, r := range y.order {
		if r.done+r.flying == 0 {
			n++
		}
	}
	return n + len(y.waiting)
}

// rotate moves those that have their turn behind the others.
func (y *source) rotate() {
	turn := make([]*request, 0, len(y.takes))
	for _, t := range y.takes {
		turn = append(turn, y.order[t.Index])
	}
	kept := y.order[:0]
	for _, r := range y.order {
		if r.flying == 0 {
			kept = append(kept, r)
		}
	}
	y.order = append(y.order[:len(kept)], turn...)
}

var _ sim.Source = (*source)(nil)
