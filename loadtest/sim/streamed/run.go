package streamed

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// Settings are what all policies have in common.
type Settings struct {
	System    *serverless.System
	Serving   requests.Settings
	KeepAlive float64 // seconds that a replica without rows stays
	Idle      float64 // the price of memory that is kept, as a part of what computes
	Every     float64 // seconds between decisions
	Seed      uint64
}

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	switch {
	case !(s.KeepAlive > 0) || math.IsInf(s.KeepAlive, 0):
		return fmt.Errorf("a replica without rows stays for %v s; it must be above 0", s.KeepAlive)
	case !(s.Idle >= 0 && s.Idle <= 1):
		return fmt.Errorf("memory that is kept costs %v times what computes; it must be 0 to 1", s.Idle)
	case !(s.Every > 0):
		return fmt.Errorf("plans are decided on every %v s; it must be above 0", s.Every)
	}
	return s.System.Check()
}

// Result is what a policy took.
type Result struct {
	*requests.Result
	// Dollars are of the whole run: the main model's, and those of functions that compute, start
	// and are kept.
	Main, Computing, Starting, Kept float64
	// GBs are of functions, by what they do, in the meter's GB.
	meter.Sums
	Containers, Waits, Changes int
	Calls                      int
	Tokens                     int
}

// engine computes batches.
type engine struct {
	*fleet
	main    float64
	policy  Policy
	draw    serverless.Draw
	decided float64
	seen    Seen
	result  Result
	last    float64
	next    *Plan   // that was decided on
	due     float64 // when its host has started
	hosts   float64 // dollars of hosts that started
	rows    serverless.Rows
	all     []bool
}

// Run serves requests under a policy; before are those that came earlier.
func Run(rs, before []trace.Request, t *requests.Tape, s Settings, p Policy) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	state := splitmix.Mix(s.Seed ^ 0x57e4)
	e := &engine{
		fleet: newFleet(s), policy: p, decided: s.Every,
		draw: func() float64 { return s.System.Functions.Invocation(splitmix.Unit(splitmix.Next(&state))) },
		rows: serverless.Rows{Prefill: make([]float64, s.System.Experts)},
		seen: newSeen(t, rs),
	}
	first, err := p.Begin(Before{System: s.System, Tape: t, Past: before, Coming: rs})
	if err != nil {
		return nil, err
	}
	e.main = first.Main
	e.follow(first, 0, true)
	served, err := requests.Drive(rs, t, s.Serving, func(b requests.Batch) float64 {
		if err == nil {
			err = e.decide(b.Began)
		}
		return e.compute(b)
	})
	if err != nil {
		return nil, err
	}
	return e.finish(served), nil
}

// decide asks the policy, if it is time to.
func (e *engine) decide(now float64) error {
	for e.seen.come < len(e.seen.Coming) && e.seen.Coming[e.seen.come].At.Seconds()/e.Serving.Rate <= now {
		e.seen.come++
	}
	if now < e.decided {
		return nil
	}
	e.decided = now + e.Every
	e.seen.Seconds = now - e.seen.from
	p, err := e.policy.Decide(&e.seen)
	e.seen.clear(now)
	if err != nil || p == nil {
		return err
	}
	e.result.Changes++
	e.next, e.due = p, now
	if p.Main != e.main { // another host starts first, beside the one that serves
		took := e.System.Functions.Cold(p.local(e.System))
		e.due += took
		e.hosts += e.System.Functions.Run(p.Main, took)
	}
	return nil
}

// turnTo goes over to the plan that was decided on, once its host has started.
func (e *engine) turnTo(now float64) {
	if e.next == nil || now < e.due {
		return
	}
	e.main = e.next.Main
	e.follow(e.next, now, false)
	e.next = nil
}

// compute is when a batch ends.
func (e *engine) compute(b requests.Batch) float64 {
	e.seen.add(b)
	e.turnTo(b.Began)
	e.result.Tokens += b.Rows
	now, n := b.Began, e.System.Experts
	for i := range e.layers {
		e.expire(i, now)
		e.wake(&e.layers[i], b.Loads[i*n:(i+1)*n], now)
	}
	for i := range e.layers {
		e.turn(&e.layers[i], now)
		now = e.layer(&e.layers[i], b.Loads[i*n:(i+1)*n], b, now)
	}
	e.result.Main += (b.Began - e.last) * e.System.Second(e.main, 0)
	e.result.Main += (now - b.Began) * e.System.Second(e.main, b.Tokens)
	e.last = now
	return now
}

// wake starts functions that a batch will have rows for and that have ended: all of them at once, as
// what is foretold says which they are.
func (e *engine) wake(l *layer, loads []uint32, now float64) {
	for _, f := range l.now {
		if len(f.replicas) == 0 && slices.ContainsFunc(f.Experts, func(x int) bool { return loads[x] > 0 }) {
			e.start(f, now, false)
			e.meter.ColdStart()
		}
	}
}

// layer is when a layer ends: equation 1 with a batch's rows.
func (e *engine) layer(l *layer, loads []uint32, b requests.Batch, now float64) float64 {
	local := 0.0
	for x, n := range loads {
		if n > 0 && l.of[x] < 0 {
			local += e.System.Compute(e.main, float64(n))
		}
	}
	end := now + local
	for _, f := range l.now {
		end = max(end, e.function(f, loads, b.Prompts > 0, now))
	}
	return end + 2*e.System.Move(b.Rows) + e.System.NonExpert(b.Rows)
}

// function is when a function's rows are back.
func (e *engine) function(f *running, loads []uint32, prompts bool, now float64) float64 {
	clear(e.rows.Prefill)
	some := 0
	for _, x := range f.Experts {
		e.rows.Prefill[x] = float64(loads[x])
		some += int(loads[x])
	}
	if some == 0 {
		return now
	}
	all, from := e.ready(f, now)
	if from > now {
		e.result.Waits++
	}
	if len(f.Experts) == 1 {
		n := min(len(all), some)
		slowest := 0.0
		for i := range n { // rows as evenly as they go
			rows := some / n
			if i < some%n {
				rows++
			}
			seconds, calls := e.System.Invoked(f.Memory, float64(rows), e.draw)
			e.used(all[i:i+1], from, seconds)
			e.result.Calls += calls
			slowest = max(slowest, seconds)
		}
		return from + slowest
	}
	if !prompts {
		all = all[:1] // one invocation, as gates have it
	}
	p := e.System.Prefill(e.main, &serverless.Layer{Remote: e.away(f), Memory: f.Memory, Replicas: len(all)}, &e.rows)
	seconds, functions, calls := p.Experts(len(all), 0, e.draw)
	e.used(all, from, functions/float64(len(all)))
	e.result.Calls += calls
	return from + seconds - 2*e.System.Move(0)
}

// away are a function's experts, as plans have them.
func (e *engine) away(f *running) []bool {
	if e.all == nil {
		e.all = make([]bool, e.System.Experts)
	}
	clear(e.all)
	for _, x := range f.Experts {
		e.all[x] = true
	}
	return e.all
}

func (e *engine) finish(served *requests.Result) *Result {
	end := max(served.Elapsed, e.last)
	for i := range e.layers {
		e.expire(i, end)
	}
	r := &e.result
	r.Result = served
	r.Main += (end - e.last) * e.System.Second(e.main, 0)
	r.Sums = e.meter.Read(end)
	r.Containers = e.began
	dollars := e.System.Functions.Run(meter.Gigabyte, 1)
	r.Computing, r.Starting, r.Kept = dollars*r.Serving, dollars*r.Loading+e.hosts, dollars*e.Idle*r.Sums.Kept
	return r
}
