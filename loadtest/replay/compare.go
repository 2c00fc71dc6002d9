package replay

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
)

// Messages is what a layer takes on the pipeline beside what a simulator knows:
// messages and the splitting and adding up of rows, and by how much paced hosts compute
// longer than is simulated, where this machine is not as fast as the profile's device for so
// many rows. Both grow with a step's rows. In seconds.
type Messages struct {
	ByRows Curve `json:"by_rows"`
	Late   Curve `json:"late"`
}

// Messages measures it: what layers took without computing and without waiting for weights.
func (r *Result) Messages() Messages {
	var m Messages
	for i := range r.Steps {
		for j := range r.Steps[i].Layers {
			if y := &r.Steps[i].Layers[j]; y.Attempt == 0 {
				m.ByRows.add(r.Steps[i].Rows, (y.Time() - y.By[ledger.ExpertCompute] - y.By[ledger.ExpertStall]).Seconds())
			}
		}
	}
	return m
}

// Of is what it adds to a layer of a step with so many rows.
func (m Messages) Of(rows int) float64 { return m.ByRows.At(float64(rows)) + m.Late.At(float64(rows)) }

// late measures by how much hosts computed longer than is simulated, which is so many seconds
// of all layers of each step.
func (r *Result) late(simulated []float64) (c Curve) {
	for i := range r.Steps {
		s := &r.Steps[i]
		if n := float64(len(s.Layers)); n > 0 {
			c.add(s.Rows, (s.computed().Seconds()-simulated[i])/n)
		}
	}
	return c
}

// Comparison is a run beside the simulator's of the same steps. Times are the mean
// layer's, in milliseconds.
type Comparison struct {
	Live float64 `json:"-"` // the line has it
	// Computing is what hosts computed, and waited for weights, in the pipeline; Sim is what is simulated of it.
	Computing float64 `json:"computing_ms_mean"`
	Sim       float64 `json:"sim_layer_ms_mean"`
	// Messages is what the pipeline adds, as another run has measured it.
	Messages float64 `json:"messages_ms_mean"`
	// Difference is how much longer the pipeline took than both together, as a
	// share of them.
	Difference float64 `json:"difference"`
	// Live requests, and what Predict has for them.
	LiveRequests Latencies `json:"live_requests"`
	SimRequests  Latencies `json:"sim_requests"`
}

// Known is what runs with other requests have measured of the pipeline.
type Known struct {
	Messages `json:"messages"`
	Around   `json:"around"`
	// Slower is how many times as long hosts compute as is simulated: 1 of paced ones, which
	// have their time to themselves. A processor was measured with nothing beside it.
	Slower float64 `json:"slower"`
}

// Known is what this run measures.
func (r *Result) Known(s sim.Settings, of elastic.Settings, paced bool) (Known, error) {
	k := Known{r.Messages(), r.Around(), 1}
	k.Beyond = r.beyond(k.Messages, k.Around)
	simulated, err := r.simulate(s, of)
	if err != nil {
		return k, err
	}
	if paced {
		k.Late = r.late(simulated.Iterations)
		return k, nil
	}
	if live := r.Stages()[ledger.ExpertCompute]; live > 0 && simulated.Mean() > 0 {
		k.Slower = live / simulated.Mean()
	}
	return k, nil
}

// Between is the middle of what two runs have measured.
func (k Known) Between(o Known) Known {
	half := func(a, b float64) float64 { return (a + b) / 2 }
	return Known{
		Messages{k.ByRows.with(o.ByRows), k.Late.with(o.Late)},
		Around{k.Step.with(o.Step), half(k.Gap, o.Gap), half(k.Intake, o.Intake), half(k.Delivery, o.Delivery), slices.Concat(k.Beyond, o.Beyond)},
		half(k.Slower, o.Slower),
	}
}

// Compare simulates the steps of a run under the scaler's policy, with nothing
// known of the run but when steps began and which rows they had. What rows and loads
// take is the profile's.
func (r *Result) Compare(s sim.Settings, of elastic.Settings, k Known) (*Comparison, error) {
	simulated, err := r.simulate(s, of)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Live: 1e3 * mean(r.Times()), Sim: 1e3 * simulated.Mean() * k.Slower}
	stages := r.Stages()
	c.Computing = 1e3 * (stages[ledger.ExpertCompute] + stages[ledger.ExpertStall])
	for i := range r.Steps {
		c.Messages += 1e3 * k.Of(r.Steps[i].Rows) / float64(len(r.Steps))
	}
	layers := make([]float64, len(simulated.Iterations))
	for i, seconds := range simulated.Iterations {
		layers[i] = seconds * k.Slower
	}
	c.LiveRequests, c.SimRequests = r.Latencies(), r.Predict(layers, k.Messages, k.Around)
	c.Difference = c.Live/(c.Sim+c.Messages) - 1
	return c, nil
}

// simulate runs the same steps.
func (r *Result) simulate(s sim.Settings, of elastic.Settings) (*sim.Result, error) {
	w, err := r.Workload()
	if err != nil {
		return nil, err
	}
	p := s.Model.Profile
	of.RowSeconds, of.LoadSeconds = p.Row(), p.Link().Seconds(p.ExpertBytes.Value)
	policy, err := sim.Loop(s, of)
	if err != nil {
		return nil, fmt.Errorf("simulating scaling %s: %w", of.Scaling, err)
	}
	return sim.Run(w, s, policy)
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(max(1, len(all)))
}
