package replay

import (
	"slices"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// Times are the layer forward times of all layers of all steps (ledger.Layer.Time)
// that were issued once, in seconds and in ascending order.
func (r *Result) Times() (seconds []float64) {
	r.layers(func(l *Layer) { seconds = append(seconds, l.Time().Seconds()) })
	slices.Sort(seconds)
	return seconds
}

func (r *Result) layers(see func(*Layer)) {
	for i := range r.Steps {
		for j := range r.Steps[i].Layers {
			if l := &r.Steps[i].Layers[j]; l.Attempt == 0 {
				see(l)
			}
		}
	}
}

// Stages are the mean seconds of each stage of a layer.
func (r *Result) Stages() (seconds [ledger.Stages]float64) {
	n := 0.0
	r.layers(func(l *Layer) {
		n++
		for s, d := range l.By {
			seconds[s] += d.Seconds()
		}
	})
	for s := range seconds {
		seconds[s] /= max(1, n)
	}
	return seconds
}

// Tokens are the rows of all steps.
func (r *Result) Tokens() (n int) {
	for i := range r.Steps {
		n += r.Steps[i].Rows
	}
	return n
}

// Replicas is the mean number of a layer's warm replicas over time.
func (r *Result) Replicas() float64 {
	sum, n := 0, 0
	for i := range r.Frames {
		for _, warm := range r.Frames[i].Warm {
			sum += warm
		}
		n += r.Shape.Layers
	}
	return float64(sum) / float64(max(1, n))
}

// Cost is what the experts cost, in gigabytes times seconds.
type Cost struct {
	// Layers is as MoEless bills: a replica costs while its layer runs.
	Layers float64
	// Resident is of all bytes that hosts hold, all the time, as they meter it. They tell once a
	// second: of a shorter run it may be 0.
	Resident float64
}

// Cost bills experts of so many bytes.
func (r *Result) Cost(expertBytes float64) (c Cost) {
	if n := len(r.Frames); n > 0 {
		c.Resident = r.Frames[n-1].Held
	}
	at := 0
	for i := range r.Steps {
		s := &r.Steps[i]
		for at+1 < len(r.Frames) && r.Frames[at+1].At <= s.At {
			at++
		}
		for j := range s.Layers {
			c.Layers += meter.Layer(s.Layers[j].Time().Seconds(), float64(r.serving(at, j, len(s.Layers[j].Loads)))*expertBytes)
		}
	}
	return c
}

// serving is how many replicas of a layer's experts are warm at a frame.
func (r *Result) serving(frame, layer, experts int) (n int) {
	if frame < len(r.Frames) {
		for _, warm := range r.Frames[frame].Warm[layer*experts:][:experts] {
			n += warm
		}
	}
	return n
}

// Workload is the same steps for the simulator, which begins each when it began
// here.
func (r *Result) Workload() (*sim.Workload, error) {
	its := make([]sim.Iteration, len(r.Steps))
	for i := range r.Steps {
		its[i] = sim.Iteration{Due: r.Steps[i].At.Seconds(), Rows: r.Steps[i].Rows}
	}
	w, err := sim.NewWorkload(r.Shape, its)
	if err != nil {
		return nil, err
	}
	for i := range r.Steps {
		for j := range r.Steps[i].Layers {
			copy(w.Loads(i, j), r.Steps[i].Layers[j].Loads)
		}
	}
	return w, nil
}
