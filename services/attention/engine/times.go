package engine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// stepTimes is where the times of steps go.
type stepTimes struct {
	// Histograms, found beforehand: by forward.Part, and by layer and ledger.Stage.
	parts  []prometheus.Observer
	stages map[int][]prometheus.Observer
	layers *loads.Times // for who plans by them; nil: nobody does
}

// newStepTimes makes the histograms of a model's layers, at 0.
func newStepTimes(m *telemetry.Metrics, layers []int) *stepTimes {
	t := &stepTimes{parts: m.StepParts(forward.PartNames()), stages: map[int][]prometheus.Observer{}}
	for _, l := range layers {
		t.stages[l] = m.LayerStages(l, ledger.StageNames())
	}
	return t
}

// add takes in a step of so many rows.
func (t *stepTimes) add(rows int, s *ledger.Step) {
	for i, part := range t.parts {
		part.Observe(s.Own[i].Seconds())
	}
	for i := range s.Layers {
		l := &s.Layers[i]
		for at, stage := range t.stages[l.Layer] {
			stage.Observe(l.By[at].Seconds())
		}
	}
	if t.layers != nil {
		t.tell(rows, s)
	}
}

// tell takes in what the layers of a step took, for who plans by it.
func (t *stepTimes) tell(rows int, s *ledger.Step) {
	for i := range s.Layers {
		l := &s.Layers[i]
		t.layers.Add(l.Layer, loads.Took{
			Rows: rows, Dispatches: l.Functions, Total: l.Time(), Messages: l.By[ledger.Messages] + l.By[ledger.AggregatorWait] + l.By[ledger.ExpertTransfer],
		})
	}
}

// send tells what layers took, and how many requests wait for the first of them, until ctx ends.
func (t *stepTimes) send(ctx context.Context, d *deployment.Deployment, waiting func() int) {
	if t.layers == nil {
		return
	}
	tick := time.NewTicker(loads.TimesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.layers.Wait(d.MoELayers()[0], waiting())
			for _, sample := range t.layers.Take(loads.TimesEvery) {
				d.Loads.Send(sample)
			}
		}
	}
}
