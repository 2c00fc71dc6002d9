package offload

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Traffic are texts as a model routes them: those before, which stores are built of, and those
// that are served.
type Traffic struct {
	Model
	Gates *routing.Gates
	// Prompts is what the rows of prompts leave in stores of maps.
	Prompts        Prompts
	Before, Served []*routing.Rows
}

// Lab runs policies on one traffic, and finds what they foresee once.
type Lab struct {
	Traffic
	Testbed
	Delays
	Beside
	// Distance is that of prediction, Capacity that of stores of maps, Batch how many sequences
	// are served together.
	Distance, Capacity, Batch int
	// Empty begins with empty stores: of maps, of requests' counts, and of what is learned while rows
	// are served. Networks that are trained before are trained on the texts before all the same.
	// Grows has stores of maps and counts take in what is served.
	Empty, Grows bool
	// Filled begins with as many experts on each host as it holds, the first layers' first.
	Filled bool
	// AsServed is how services/predictor learns what it weighs: from nothing, of generated rows, with networks that
	// were trained elsewhere; nil learns from the texts before, and from prompts.
	AsServed Networks
	// Varied says that policies with a distance of their own have the lab's.
	Varied bool

	work     *Workload
	maps     *Maps
	foreseen map[foreseen]*Foresight
	trained  map[trained][][]float32 // of all labs of the traffic
}

// trained is what maps to later layers were learned from.
type trained struct{ texts, distance int }

// train learns from the first texts before, once.
func (b *Lab) train(texts, distance int) [][]float32 {
	key := trained{texts, distance}
	if b.trained[key] == nil {
		b.trained[key] = train(b.Gates, b.Before[:texts], distance)
	}
	return b.trained[key]
}

// Serve is a lab of the same traffic on another testbed, which serves its first texts in
// batches.
func (b *Lab) Serve(bed Testbed, texts, batch int) (*Lab, error) {
	t := b.Traffic
	t.Served = t.Served[:min(max(texts, 0), len(t.Served))]
	other, err := NewLab(t, bed, b.Delays, b.Distance, b.Capacity, batch)
	if err != nil {
		return nil, err
	}
	other.trained, other.Empty, other.Grows, other.Filled, other.Beside = b.trained, b.Empty, b.Grows, b.Filled, b.Beside
	return other, nil
}

type foreseen struct {
	kind     Kind
	distance int
}

// NewLab prepares runs.
func NewLab(t Traffic, bed Testbed, delays Delays, distance, capacity, batch int) (*Lab, error) {
	if distance < 1 || distance >= t.Layers {
		return nil, fmt.Errorf("the prediction distance is %d; with %d layers it must be 1 to %d", distance, t.Layers, t.Layers-1)
	}
	w, err := NewWorkload(t.Model, t.Gates, t.Served, batch)
	if err != nil {
		return nil, err
	}
	return &Lab{Traffic: t, Testbed: bed, Delays: delays, Distance: distance, Capacity: capacity, Batch: batch, work: w, foreseen: map[foreseen]*Foresight{}, trained: map[trained][][]float32{}}, nil
}

// Work are the steps.
func (b *Lab) Work() *Workload { return b.work }

// known are the texts that stores are built of.
func (b *Lab) known() []*routing.Rows {
	if b.Empty {
		return nil
	}
	return b.Before
}

// Maps are those of the texts before, with what was found in them.
func (b *Lab) Maps() (*Maps, error) {
	if b.maps == nil {
		m, err := NewMaps(b.work, b.known(), b.Prompts, b.Capacity, b.Distance, b.Grows)
		if err != nil {
			return nil, err
		}
		b.maps = m
	}
	return b.maps, nil
}

// Further is the lab with another distance, whose maps are the same.
func (b *Lab) Further(distance int) (*Lab, error) {
	if _, err := b.Maps(); err != nil {
		return nil, err
	}
	other := *b
	other.Distance, other.Varied = distance, true
	if distance < 1 || distance >= b.Layers {
		return nil, fmt.Errorf("the prediction distance is %d; with %d layers it must be 1 to %d", distance, b.Layers, b.Layers-1)
	}
	return &other, nil
}

// distance is that of a policy.
func (b *Lab) distance(p Policy) int {
	if b.Varied || p.Distance <= 0 {
		return b.Distance
	}
	return min(p.Distance, b.Layers-1)
}

// Foresee is what a policy's predictor says.
func (b *Lab) Foresee(p Policy) (*Foresight, error) {
	key := foreseen{p.Predictor, b.distance(p)}
	if f := b.foreseen[key]; f != nil {
		return f, nil
	}
	predictor, err := b.predictor(key.kind, key.distance)
	if err != nil {
		return nil, err
	}
	f := Foresee(b.work, predictor)
	b.foreseen[key] = f
	return f, nil
}

func (b *Lab) predictor(k Kind, distance int) (Predictor, error) {
	switch k {
	case Nothing:
		return nil, nil
	case Reused:
		return &speculation{w: b.work, distance: distance}, nil
	case Learned:
		return &speculation{w: b.work, distance: distance, learned: b.train(len(b.Before), distance)}, nil
	case Counted:
		return newCounts(b.work, b.known(), distance, b.Grows), nil
	case Streamed:
		return streamed{b.work}, nil
	case Previous:
		return &previous{w: b.work, distance: distance}, nil
	case Known:
		return &oracle{w: b.work, distance: distance}, nil
	case Calibrated, MapsAlone:
		return b.calibrate(distance, k == Calibrated)
	case Trajectory, Searched, Selected:
		m, err := b.Maps()
		if err != nil {
			return nil, err
		}
		return &mapped{Maps: m, distance: distance, bySemantic: k != Trajectory, byDelta: k == Selected}, nil
	}
	return nil, fmt.Errorf("there is no way to predict by %q", k)
}

// kept is the part of the texts before whose maps the regression's first weights are learned
// with, from the other texts: maps of a text itself would say too much.
const kept = 0.7

// calibrate learns first weights from the texts before.
func (b *Lab) calibrate(distance int, gates bool) (*calibrated, error) {
	m, err := b.Maps()
	if err != nil {
		return nil, err
	}
	if b.AsServed != nil {
		c := newCalibrated(m, nil, distance, gates)
		c.answers, c.trained = true, b.AsServed
		return c, nil
	}
	c := newCalibrated(m, b.known(), distance, gates)
	c.trained = b.regress(len(b.Before), distance, gates)
	cut := int(kept * float64(len(b.known())))
	if cut < 1 || cut == len(b.Before) {
		return c, nil
	}
	w, err := NewWorkload(b.Model, b.Gates, b.Before[cut:], 1)
	if err != nil {
		return nil, err
	}
	before, err := NewMaps(w, b.Before[:cut], b.Prompts, b.Capacity, b.Distance, false)
	if err != nil {
		return nil, err
	}
	first := newCalibrated(before, b.Before[:cut], distance, gates)
	first.trained = b.regress(cut, distance, gates)
	Foresee(w, first)
	c.Take(first.Learner)
	return c, nil
}

// regress learns from the first texts before for each distance up to one, if gates are computed early at all.
func (b *Lab) regress(texts, distance int, gates bool) (all regressions) {
	for d := 1; d <= distance && gates; d++ {
		all = append(all, b.train(texts, d))
	}
	return all
}

// Run is what a policy takes with a budget of bytes.
func (b *Lab) Run(p Policy, budget float64) (*Result, error) {
	f, err := b.Foresee(p)
	if err != nil {
		return nil, err
	}
	s := Settings{Testbed: b.Testbed, Budget: budget, Beside: b.Beside, Filled: b.Filled}
	s.Delay, s.First = b.delay(p.Predictor)
	s.Rows = b.Prompts == EveryMap
	return Run(s, b.work, p, f)
}

// delay is what a prediction takes, at a gate and before the first layer.
func (b *Lab) delay(k Kind) (gate, first float64) {
	switch k {
	case Reused:
		return b.Gate, b.Gate
	case Learned:
		return b.Delays.Learned, b.Delays.Learned
	case Counted:
		return b.Counts, 0
	case Trajectory, Searched, Selected, MapsAlone:
		return b.Delays.Trajectory, b.Semantic
	case Calibrated:
		return b.Delays.Trajectory + b.Delays.Learned, b.Semantic
	case Nothing, Streamed, Previous, Known:
	}
	return 0, 0
}

// Predicting is what a policy's predictions of one step take, one after the other.
func (b *Lab) Predicting(p Policy) float64 {
	gate, first := b.delay(p.Predictor)
	return first + gate*float64(b.Layers)
}
