package sim

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/world"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Loop decides as a scaler does that serves (pkg/policy/elastic): by what gates
// have counted, at its cadence, and only what is worth its loads. A policy is for
// one run.
func Loop(s Settings, scaling elastic.Settings) (Policy, error) {
	m := elastic.Model{Model: plan.Model{Experts: s.Model.Experts, ExpertBytes: uint64(s.Model.Profile.Expert())}, Hash: 1, TopK: s.Model.TopK}
	for l := range s.Model.Layers {
		m.MoELayers = append(m.MoELayers, l)
	}
	chosen, err := registry.Choose(scaling.Scaling, registry.Live)
	if err != nil {
		return Policy{}, err
	}
	takes := s.believed().Compute()
	scaling.Takes = &takes
	core, err := elastic.New(scaling, m)
	if err != nil {
		return Policy{}, err
	}
	y := &loop{core: core, topK: s.Model.TopK, known: plan.Known{
		Model: m.Model, Settings: plan.Settings{Policy: plan.Static, Grouping: plan.ByExpert, Replicas: 1}, InForce: map[int]*plan.Layer{},
	}}
	for h := range s.Hosts {
		y.known.Hosts = append(y.known.Hosts, plan.Host{ID: hostID(h), Budget: uint64(s.Model.Profile.Memory())})
	}
	return Policy{Name: scaling.Scaling, Decide: y.decide, Divides: chosen.Divides}, y.plan(0) // the first plan is the static one
}

// loop is a scaler's core and the plan in force.
type loop struct {
	core   *elastic.Core
	topK   int
	known  plan.Known
	number uint64  // of samples
	due    float64 // when it is to decide again
}

// decide tells the core each step's rows of a layer, and at its cadence all layers' new plan
// with the last one.
func (y *loop) decide(w *world.World) (d world.Decision, err error) {
	for _, l := range w.Due {
		if err := y.observe(w, l); err != nil {
			return d, err
		}
		if l == len(w.Layers)-1 && w.Now >= y.due {
			y.due = w.Now + elastic.Cadence
			if err := errors.Join(y.wait(w), y.plan(w.Now)); err != nil {
				return d, err
			}
		}
		d.Layers = append(d.Layers, world.Placement{Layer: l, Replicas: replicasOf(w, y.known.InForce[l])})
	}
	return d, nil
}

func (y *loop) observe(w *world.World, l int) error {
	step := &pb.StepLoad{}
	rows := 0.0
	for e, n := range w.Layers[l].Rows() {
		if n > 0 {
			step.Expert, step.Count = append(step.Expert, uint32(e)), append(step.Count, uint32(n))
			rows += n
		}
	}
	if rows == 0 {
		return nil
	}
	step.Owner, step.Epoch, step.Rows = "attention-sim", 1, uint32(rows)/uint32(y.topK)
	y.number++
	err := y.core.Observe(w.Now, &pb.LoadSample{
		Version: schemas.Version, Model: 1, Host: "gate-sim", Layer: uint32(l), SpanMs: uint32(math.Ceil(1e3 * elastic.Cadence)), Number: y.number,
		Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{step},
	})
	if err != nil {
		return fmt.Errorf("telling the scaler of layer %d: %w", l, err)
	}
	return nil
}

// mostWaiting are more requests than attention tells of.
const mostWaiting = 1 << 16

// wait tells the core how many requests wait, as attention does.
func (y *loop) wait(w *world.World) error {
	y.number++
	err := y.core.Observe(w.Now, &pb.LoadSample{
		Version: schemas.Version, Model: 1, Host: "attention-sim", SpanMs: uint32(math.Ceil(1e3 * elastic.Cadence)), Number: y.number,
		Source: pb.LoadSource_LOAD_SOURCE_ATTENTION, Waiting: new(uint64(min(w.Waiting, mostWaiting))),
	})
	if err != nil {
		return fmt.Errorf("telling the scaler of what waits: %w", err)
	}
	return nil
}

// plan makes what the core decides the plan in force.
func (y *loop) plan(now float64) error {
	d, _, err := y.core.Decide(now, y.known)
	if err != nil {
		return err
	}
	rules := plan.Rules{MoELayers: y.known.Model.MoELayers, Experts: y.known.Model.Experts}
	for _, lp := range d.Layers {
		l, err := rules.Check(lp)
		if err != nil {
			return fmt.Errorf("layer %d of the scaler's plan: %w", lp.Layer, err)
		}
		y.known.InForce[int(lp.Layer)] = l
	}
	return nil
}

// replicasOf is where a plan wants replicas warm.
func replicasOf(w *world.World, l *plan.Layer) (rs []world.Replica) {
	for _, f := range l.Functions {
		for _, at := range f.Placements {
			if at.Want == pb.Want_WANT_WARM {
				for _, e := range f.Experts {
					if h, here := w.Host(at.Host); here {
						rs = append(rs, world.Replica{Unit: int(e), Host: h})
					}
				}
			}
		}
	}
	return rs
}
