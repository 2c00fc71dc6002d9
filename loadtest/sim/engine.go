package sim

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// engine runs what a source gives under one policy.
type engine struct {
	Settings
	policy  Policy
	work    Source
	world   *world.World // as the policy sees it
	now     float64
	layers  []layer
	links   []float64 // when each host's transfers are done
	takes   cost.Device
	rows    []int     // of each host, in the layer that runs
	busy    []float64 // seconds of each host, in the layer that runs
	waits   []float64 // of each host: how late its last expert is ready
	wrong   forecast
	trust   trust
	serving []int // replicas of the expert that is looked at
	divider *divide.Divider
	asked   []divide.Expert // of the layer that runs
	places  []int           // their hosts
	failed  []bool          // of Failures: those that are now
	there   []int           // hosts that are not gone
	meter   *meter.Meter
	shares  []divide.Share
	result  Result
}

// ErrStopped is what a run ends with that was given up.
var ErrStopped = errors.New("stopped")

// Run replays a workload under a policy.
func Run(w *Workload, s Settings, p Policy) (*Result, error) {
	if w.Shape != s.Model.Shape {
		return nil, fmt.Errorf("the workload is of %+v, and %s of %+v", w.Shape, s.Model.Name, s.Model.Shape)
	}
	return Feed(&replayed{Workload: w}, s, p)
}

// Feed runs a source's iterations under a policy. The source is of the settings' shape.
func Feed(from Source, s Settings, p Policy) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	e := newEngine(from, s, p)
	if err := e.run(); err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	return e.finish(), nil
}

func newEngine(from Source, s Settings, p Policy) *engine {
	e := &engine{
		Settings: s, policy: p, work: from, layers: make([]layer, s.Model.Layers), links: make([]float64, s.Hosts),
		takes: s.Model.Profile.Compute(), rows: make([]int, s.Hosts), busy: make([]float64, s.Hosts), waits: make([]float64, s.Hosts), wrong: newForecast(s), trust: newTrust(s),
		divider: s.divider(),
		meter:   meter.New(s.Model.Layers),
		result:  Result{Policy: p.Name},
	}
	e.failed = make([]bool, len(s.Failures))
	e.roll()
	for l := range e.layers {
		e.layers[l] = newLayer(s, l)
		e.layers[l].fill(s.Hosts)
	}
	return e
}

func hostID(h int) string { return fmt.Sprintf("host-%05d", h) }

func (e *engine) run() (err error) {
	if e.world, err = e.Settings.world(); err != nil {
		return err
	}
	if err := e.start(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		it, ok := e.work.Next(e.now)
		switch {
		case !ok:
			return nil
		case e.Stopped != nil && e.Stopped():
			return ErrStopped
		}
		e.now = max(e.now, it.Due)
		if err := errors.Join(e.world.Observe(world.Clock(e.now)), e.world.Observe(world.Backlog(it.Waiting))); err != nil {
			return err
		}
		e.result.Tokens += it.Rows
		if err := e.iteration(); err != nil {
			return fmt.Errorf("iteration %d: %w", i, err)
		}
	}
}

// start makes the decisions of policies that begin with one; what it loads is
// there at once, as the initial placement is.
func (e *engine) start() error {
	for l := range e.layers {
		if !e.policy.Start {
			break
		}
		y := &e.layers[l]
		if err := e.decide(l, e.work.Known(l)); err != nil {
			return err
		}
		y.settle()
		y.fill(e.Hosts)
	}
	clear(e.links)
	e.meter = meter.New(len(e.layers))
	for l := range e.layers {
		y := &e.layers[l]
		for i := range y.replicas {
			r := &y.replicas[i]
			r.unit = meter.Unit{}
			e.meter.Place(&r.unit, l, y.bytes, 0)
		}
	}
	return nil
}

// iteration runs all layers. Decisions about the first ones are made at its
// beginning, on what the iteration before had: nothing lies before them.
func (e *engine) iteration() error {
	e.result.Iterations = append(e.result.Iterations, 0)
	for l := range min(e.Distance, len(e.layers)) {
		if err := e.ahead(l, e.layers[l].shares(e.work.Loads(l))); err != nil {
			return err
		}
	}
	for l := range e.layers {
		if err := e.step(l); err != nil {
			return err
		}
	}
	return nil
}

// step runs a layer, with the decisions that its beginning and its end bring.
func (e *engine) step(l int) error {
	if to := l + e.Distance; to < len(e.layers) {
		if err := e.ahead(to, e.wrong.predict(to, e.work.Loads(to))); err != nil {
			return err
		}
	}
	if err := e.execute(l); err != nil {
		return err
	}
	return e.behind(l)
}

// ahead decides about a layer before it runs, for policies that look ahead.
func (e *engine) ahead(l int, predicted []float64) error {
	if e.policy.Decide == nil || e.policy.Sees == Past {
		return nil
	}
	actual := e.work.Loads(l)
	e.result.hits.add(predicted, actual)
	switch {
	case e.policy.Sees == Exact:
		predicted = floats(actual)
	case e.policy.Corrects && l >= e.Distance:
		raw := predicted
		predicted = e.trust.correct(l, raw)
		e.trust.learn(l, raw, actual) // counts from the next iteration on
	}
	return e.decide(l, predicted)
}

// behind decides about a layer that has run, for policies that look back.
func (e *engine) behind(l int) error {
	y := &e.layers[l]
	y.count(e.work.Loads(l))
	if e.policy.Decide == nil || e.policy.Sees != Past || e.now < y.next {
		return nil
	}
	first := y.next == 0
	y.next = e.now + e.policy.Every
	if first { // nothing but one iteration is known
		return nil
	}
	defer clear(y.window)
	return e.decide(l, y.window)
}

// decide asks the policy about a layer and begins to load what is new.
func (e *engine) decide(l int, loads []float64) error {
	y := &e.layers[l]
	e.expire(y)
	d, err := e.ask(l, loads)
	if err != nil {
		return fmt.Errorf("layer %d: %w", l, err)
	}
	e.result.Decisions++
	for _, p := range d.Layers {
		if p.Layer == l {
			e.apply(y, p, loads)
		}
	}
	return nil
}

// ask tells the world of a layer's rows and of what hosts hold, and asks the policy.
func (e *engine) ask(l int, loads []float64) (world.Decision, error) {
	source := world.Predicted
	if e.policy.Sees == Past {
		source = world.Recent
	}
	for _, event := range []world.Event{
		world.Clock(e.now),
		world.Rows{Layer: l, Demand: world.Demand{Source: source, Rows: loads}},
		world.Holds{Layer: l, Held: e.layers[l].holds()},
	} {
		if err := e.world.Observe(event); err != nil {
			return world.Decision{}, err
		}
	}
	e.world.Due = append(e.world.Due[:0], l)
	d, err := e.policy.Decide(e.world)
	if err != nil {
		return d, err
	}
	return d, d.Check(e.world)
}

// apply makes a placement what is wanted. An expert without rows that went to
// zero stays there.
func (e *engine) apply(y *layer, p world.Placement, loads []float64) {
	for i := range y.replicas {
		y.replicas[i].wanted = false
	}
	y.keep = p.Keep
	var fresh []world.Replica
	for _, r := range p.Replicas {
		if at := y.find(r.Unit, r.Host); at >= 0 {
			y.replicas[at].wanted = true
			if loads[r.Unit] > 0 && (!e.policy.Divides || divide.Home(r.Unit, e.Hosts) == r.Host) {
				y.replicas[at].used = e.now
			}
		} else if (loads[r.Unit] > 0 || y.resident(r.Unit)) && e.up(r.Host) {
			fresh = append(fresh, r)
		}
	}
	y.yields = func(r *replica) bool { return !r.wanted }
	for _, r := range fresh {
		e.load(y, r.Unit, r.Host, e.now+e.Predict, residency.Planned)
	}
}
