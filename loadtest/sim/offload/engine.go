package offload

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Settings are those of a run.
type Settings struct {
	Testbed
	// Budget are the bytes for experts of all hosts together, each of which has as many.
	Budget float64
	Beside
	// Filled begins with as many experts on each host as it holds, the first layers' first.
	Filled bool
	// Delay are the seconds from a layer's gate to a prediction at the hosts; First that from a
	// step's beginning to the one before the first layer.
	Delay, First float64
	// Rows says that predictions for a prompt take as long for each of its rows.
	Rows bool
}

// Beside are the seconds that are spent beside what is simulated.
type Beside struct {
	Prefill, Decode Around
	// Load is what a load takes beside its transfer.
	Load float64
}

// Around are the seconds around what a step's devices do.
type Around struct {
	// Step is before a step begins.
	Step float64
	// Before is from a layer's beginning until its rows are at hosts; of that Hops is on the way, as long as what is
	// foretold before the first layer is on it. After is from a host's results until
	// the layer's end. Held is what a host takes for rows beside computing them, while it keeps their experts.
	Before, Hops, Held, After float64
	// Lag is how much later than a layer's rows what its gate foretells is at hosts, and Lead how much sooner than
	// those of the first layer what is foretold before it; not measured: a prediction's delay tells.
	Lag, Lead Measured
}

// Measured is the mean of so many measurements, in seconds.
type Measured struct {
	Seconds float64
	N       int
}

// With is the mean with one more.
func (m Measured) With(seconds float64) Measured {
	n := m.N + 1
	return Measured{m.Seconds + (seconds-m.Seconds)/float64(n), n}
}

// engine runs a workload.
type engine struct {
	Settings
	w       *Workload
	policy  Policy
	f       *Foresight
	r       *Result
	phase   *Phase
	now     float64
	hosts   []host
	below   *below // nil: there is no tier below
	step    int
	layer   int // that the step has reached; -1 before the first
	pending int // hosts that are not done with this layer's rows
	hold    bool
	hints   []arrival
	units   []state   // by layer and expert
	uses    [][]int32 // of each unit, the positions that are to come; for Belady
}

// state is what the engine knows of an expert, beside its host's machine.
type state struct {
	moved    float64 // bytes of its load
	fetching bool    // they come from the tier below's store yet
	below    bool    // a load keeps it in the tier below
	demanded bool    // in this layer, and is not there yet
	hinted   bool    // a hint holds a reference
	roomless bool    // a hint found no room for it
	due      int     // the step that it was hinted for
	chance   float64 // that it was hinted with
	ahead    bool    // its load began for a hint
	fetched  bool    // it is held because of a hint, and was not demanded since
}

// arrival is a prediction on its way to the hosts, made at a layer of a step.
type arrival struct {
	at          float64
	step, layer int
	looks       []Look
}

// ErrStuck says that demanded experts can never be loaded.
var ErrStuck = errors.New("experts that are demanded can never be loaded")

// Run is what a policy takes for a workload, with what its predictor foresees of it.
func Run(s Settings, w *Workload, p Policy, f *Foresight) (*Result, error) {
	if !p.Whole {
		if err := s.Check(w.Model, s.Budget); err != nil {
			return nil, err
		}
	}
	e := &engine{Settings: s, w: w, policy: p, f: f, r: &Result{}, hosts: make([]host, s.Hosts), units: make([]state, w.Layers*w.Experts)}
	if p.Order == Belady {
		e.uses = w.positions()
	}
	if s.Below.Bytes > 0 {
		e.below = newBelow(e)
	}
	e.r.Prefill.busy, e.r.Decode.busy = make([]float64, s.Hosts), make([]float64, s.Hosts)
	for h := range e.hosts {
		if err := e.open(h); err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
	}
	if s.Filled && !p.Whole {
		e.fill()
	}
	for step := range w.Steps {
		if err := e.run(step); err != nil {
			return nil, fmt.Errorf("step %d of policy %s: %w", step, p.Name, err)
		}
	}
	e.end()
	return e.r, nil
}

// open makes a host, which knows of steps what it is told and what rows tell.
func (e *engine) open(number int) (err error) {
	h := &e.hosts[number]
	*h = host{engine: e, number: number, running: none, stop: none, reached: -1, known: -1}
	ageing := e.policy.Ageing
	if ageing == 0 {
		ageing = 1
	}
	if h.outlook, err = residency.NewOutlook(e.w.Layers, e.w.Experts, e.w.TopK, ageing); err != nil {
		return err
	}
	order, err := e.order(h.outlook)
	if err != nil {
		return err
	}
	h.m = residency.New(residency.Settings{Budget: int64(e.each()), Order: order})
	return nil
}

func (e *engine) each() float64 { return e.Budget / float64(e.Hosts) }

// fill has hosts hold what they have room for, as hosts do before the first step.
func (e *engine) fill() {
	for i := range e.units {
		h, u := e.host(i), e.unit(i)
		if h.m.Used()+int64(e.w.ExpertBytes) > int64(e.each()) {
			continue
		}
		h.m.Want(residency.Want{Unit: u, Bytes: int64(e.w.ExpertBytes), Urgency: residency.Planned})
		h.m.Loaded(u)
		h.m.Release(u)
		for ok := true; ok; _, ok = h.m.Next() { // all of it is done
		}
		if e.below != nil && e.below.keep(u) {
			e.below.release(u)
		}
	}
}

// none is no unit.
const none = -1

func (e *engine) order(o *residency.Outlook) (residency.Order, error) {
	switch {
	case e.policy.Order == Belady:
		return residency.Belady{Next: e.nextUse}, nil
	case e.policy.Order == "next-use" && e.Shared > 0:
		return residency.NextUse{Outlook: o, Least: sharedLeast}, nil
	}
	return residency.Named(e.policy.Order, o)
}

// sharedLeast is the chance that hosts with one link ask of prefetches: enough that those cost
// next to nothing where nothing can be foretold (TestUnpredictable).
const sharedLeast = 0.5

// positions are for each unit where it is used, in order.
func (w *Workload) positions() [][]int32 {
	all := make([][]int32, w.Layers*w.Experts)
	for s := range w.Steps {
		for l := range w.Layers {
			for x, n := range w.Loads(s, l) {
				if n > 0 {
					all[l*w.Experts+x] = append(all[l*w.Experts+x], int32(s*w.Layers+l))
				}
			}
		}
	}
	return all
}

func (e *engine) nextUse(u unit.Unit) int {
	if to := e.uses[e.index(u)]; len(to) > 0 {
		return int(to[0])
	}
	return math.MaxInt
}

func (e *engine) index(u unit.Unit) int { return u.Layer*e.w.Experts + u.Index }

func (e *engine) unit(i int) unit.Unit { return unit.Expert(i/e.w.Experts, i%e.w.Experts) }

func (e *engine) host(i int) *host { return &e.hosts[e.at(i)] }

func (e *engine) at(i int) int { return e.At(i/e.w.Experts, i%e.w.Experts, e.w.Experts) }

// around is what the step's phase spends beside.
func (e *engine) around() *Around {
	if e.phase == &e.r.Prefill {
		return &e.Beside.Prefill
	}
	return &e.Beside.Decode
}

// run takes a step through all layers.
func (e *engine) run(step int) error {
	s := &e.w.Steps[step]
	e.step, e.layer = step, -1
	e.phase = &e.r.Decode
	if s.Prefill {
		e.phase = &e.r.Prefill
	}
	began := e.now
	if err := e.advance(e.now + e.around().Step); err != nil {
		return err
	}
	if err := e.look(); err != nil {
		return err
	}
	for l := range e.w.Layers {
		if err := e.pass(l, len(s.Rows)); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
	}
	tokens := len(s.Rows)
	if s.Prefill {
		tokens = e.w.texts(step)
	}
	if err := e.advance(e.now + e.reads(e.w.HeadBytes, tokens)); err != nil {
		return err
	}
	e.phase.Steps++
	e.phase.Seconds += e.now - began
	e.r.Steps = append(e.r.Steps, e.now-began)
	return nil
}

// texts are how many have rows in a step.
func (w *Workload) texts(step int) (n int) {
	for i, r := range w.Steps[step].Rows {
		if i == 0 || r.Text != w.Steps[step].Rows[i-1].Text {
			n++
		}
	}
	return n
}

// reads is what a call takes on the device that computes all but experts.
func (e *engine) reads(bytes float64, rows int) float64 {
	return e.Device.Compute(cost.Access{Bytes: bytes, Rows: rows})
}

// end counts what was fetched and never used.
func (e *engine) end() {
	for i := range e.units {
		if e.units[i].fetched {
			e.r.Wasted += e.w.ExpertBytes
		}
	}
}
