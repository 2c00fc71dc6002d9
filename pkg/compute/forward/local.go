package forward

import (
	"context"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Experts computes routed rows with experts that are loaded. See
// ComputeExperts for the arguments.
type Experts interface {
	Compute(in Routed, out []float32, s *ExpertScratch) error
}

// Local is the routed experts of a model by direct calls: what gate, expert
// hosts and aggregator do together, with the wire's rounding between them.
type Local struct {
	Gates   Gates
	Experts Experts
	Wire    tensor.Wire
	Hidden  int        // of the model
	Pool    *pool.Pool // rounds and combines rows
	// Routed, if not nil, hears of each layer's rows x (R, D) as the gate gets them,
	// and of the experts that it chose. Both are valid until it returns.
	Routed func(layer int, x []float32, routes *Routes) error

	routes  Routes
	scratch ExpertScratch
	x       []float32
	sums    []float32
	routed  Routed
}

// Start computes the layer at once; the result is kept for Wait.
func (m *Local) Start(_ context.Context, layer int, x []float32) (Pending, error) {
	m.x = append(m.x[:0], x...)
	m.round(m.x)
	if err := m.Gates.Route(layer, m.x, &m.routes); err != nil {
		return nil, err
	}
	if m.Routed != nil {
		if err := m.Routed(layer, m.x, &m.routes); err != nil {
			return nil, err
		}
	}
	m.fill(layer)
	m.sums = tensor.Resize(m.sums, len(x))
	if err := SumExperts(m.Experts, m.routed, m.sums, &m.scratch, m.Wire, m.Pool); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Local) fill(layer int) {
	r := &m.routed
	r.Layer, r.X, r.Weight = layer, m.x, m.routes.Weight
	r.Source, r.Expert = r.Source[:0], r.Expert[:0]
	for i, e := range m.routes.Expert {
		r.Source = append(r.Source, uint32(i/m.routes.K))
		r.Expert = append(r.Expert, uint32(e))
	}
}

// Wait returns the sums, rounded as a block.
func (m *Local) Wait(_ context.Context, out []float32) error {
	copy(out, m.sums)
	m.round(out)
	return nil
}

// round is what the wire does to rows (…, D).
func (m *Local) round(x []float32) {
	d := m.Hidden
	eachRow(workers{Pool: m.Pool}, len(x)/d, d/8, func(from, to int) { m.Wire.Round(x[from*d : to*d]) })
}

// Read is the bytes of expert weights that computing has taken so far.
func (m *Local) Read() int64 { return m.scratch.Read }
