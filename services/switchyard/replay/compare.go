package replay

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/sim"
)

// Messages is what a layer takes on the pipeline beside what a simulator knows:
// messages and the splitting and adding up of rows, which grow with a step's rows,
// and how late a paced result is released. In seconds.
type Messages struct {
	Fixed  float64 `json:"fixed_s"`
	PerRow float64 `json:"per_row_s"`
	Late   float64 `json:"late_s"`
}

// Messages measures it: the line through what layers took without computing and
// without waiting for weights, by least squares.
func (r *Result) Messages() Messages {
	var l line
	for i := range r.Steps {
		for j := range r.Steps[i].Layers {
			if y := &r.Steps[i].Layers[j]; y.Attempt == 0 {
				l.add(float64(r.Steps[i].Rows), (y.Time() - y.By[ledger.ExpertCompute] - y.By[ledger.ExpertStall]).Seconds())
			}
		}
	}
	m := Messages{Late: r.Late}
	m.Fixed, m.PerRow = l.fit()
	return m
}

// Of is what it adds to the mean layer of steps with so many rows in the mean.
func (m Messages) Of(rows float64) float64 { return m.Fixed + m.PerRow*rows + m.Late }

// Comparison is a run beside the simulator's of the same steps. Times are the mean
// layer's, in milliseconds.
type Comparison struct {
	Live float64 `json:"-"` // the line has it
	Sim  float64 `json:"sim_layer_ms_mean"`
	// Messages is what the pipeline adds, as another run has measured it.
	Messages float64 `json:"messages_ms_mean"`
	// Difference is how much longer the pipeline took than both together, as a
	// share of them.
	Difference float64 `json:"difference"`
	// Live requests, and what Predict has for them.
	LiveRequests Latencies `json:"live_requests"`
	SimRequests  Latencies `json:"sim_requests"`
}

// Known is what a run with other requests has measured of the pipeline.
type Known struct {
	Messages `json:"messages"`
	Around   `json:"around"`
}

// Known is what this run measures.
func (r *Result) Known() Known { return Known{r.Messages(), r.Around()} }

// Between is the middle of what two runs have measured.
func (k Known) Between(o Known) Known {
	half := func(a, b float64) float64 { return (a + b) / 2 }
	return Known{
		Messages{half(k.Fixed, o.Fixed), half(k.PerRow, o.PerRow), half(k.Late, o.Late)},
		Around{half(k.Step, o.Step), half(k.StepRow, o.StepRow), half(k.Gap, o.Gap), half(k.Intake, o.Intake), half(k.Delivery, o.Delivery)},
	}
}

// Compare simulates the steps of a run under the scaler's policy, with nothing
// known of the run but when steps began and which rows they had. What rows and loads
// take is the profile's.
func (r *Result) Compare(s sim.Settings, of elastic.Settings, k Known) (*Comparison, error) {
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
	simulated, err := sim.Run(w, s, policy)
	if err != nil {
		return nil, err
	}
	rows := float64(r.Tokens()) / float64(max(1, len(r.Steps)))
	c := &Comparison{Live: 1e3 * mean(r.Times()), Sim: 1e3 * simulated.Mean(), Messages: 1e3 * k.Of(rows)}
	c.LiveRequests, c.SimRequests = r.Latencies(), r.Predict(simulated.Iterations, k.Messages, k.Around)
	c.Difference = c.Live/(c.Sim+c.Messages) - 1
	return c, nil
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(max(1, len(all)))
}
