package forward

import (
	"context"

	"github.com/switchyard/switchyard/internal/reuse"
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
	// Redirect, if not nil, may change what the gate chose, behind Routed: to other experts that
	// Experts has, or to none (NoExpert).
	Redirect func(layer int, x []float32, routes *Routes) error

	routes  Routes
	scratch ExpertScratch
	x       []float32
	sums    []float32
	routed  Routed
	some    []int     // rows with experts, where others have none
	part, y []float32 // of them: what goes in, and what comes out
}

// Start computes the layer at once; the result is kept for Wait.
func (m *Local) Start(_ context.Context, layer int, x []float32) (Pending, error) {
	if err := m.route(layer, x); err != nil {
		return nil, err
	}
	if m.Routed != nil {
		if err := m.Routed(layer, m.x, &m.routes); err != nil {
			return nil, err
		}
	}
	if m.Redirect != nil {
		if err := m.Redirect(layer, m.x, &m.routes); err != nil {
			return nil, err
		}
	}
	m.fill(layer)
	m.sums = reuse.Slice(m.sums, len(x))
	if err := m.sum(); err != nil {
		return nil, err
	}
	return m, nil
}

// route makes m.x of x, as the gate gets it, and chooses.
func (m *Local) route(layer int, x []float32) error {
	m.x = reuse.Slice(m.x, len(x))
	first := func(from, to int) { m.round(m.x, x, from, to) }
	if router, ok := m.Gates.(*Router); ok {
		return router.routeAfter(layer, m.x, &m.routes, first)
	}
	eachRow(workers{Pool: m.Pool}, len(x)/m.Hidden, m.Hidden/4, first)
	return m.Gates.Route(layer, m.x, &m.routes)
}

// fill makes entries of the slots that have experts. Rows without any are left out.
func (m *Local) fill(layer int) {
	r := &m.routed
	r.Layer, r.X = layer, m.x
	r.Source, r.Expert, r.Weight = r.Source[:0], r.Expert[:0], r.Weight[:0]
	m.some = m.some[:0]
	for row := range m.routes.Rows() {
		before := len(r.Expert)
		for i := row * m.routes.K; i < (row+1)*m.routes.K; i++ {
			if m.routes.Expert[i] != NoExpert {
				r.Source, r.Expert, r.Weight = append(r.Source, uint32(len(m.some))), append(r.Expert, uint32(m.routes.Expert[i])), append(r.Weight, m.routes.Weight[i])
			}
		}
		if len(r.Expert) > before {
			m.some = append(m.some, row)
		}
	}
}

// sum computes the entries. A row without any gives zeros.
func (m *Local) sum() error {
	if len(m.some) == m.routes.Rows() {
		return SumExperts(m.Experts, m.routed, m.sums, &m.scratch, m.Wire, m.Pool)
	}
	clear(m.sums)
	if len(m.some) == 0 {
		return nil
	}
	d := m.Hidden
	m.part, m.y = m.part[:0], reuse.Slice(m.y, len(m.some)*d)
	for _, row := range m.some {
		m.part = append(m.part, m.x[row*d:(row+1)*d]...)
	}
	m.routed.X = m.part
	if err := SumExperts(m.Experts, m.routed, m.y, &m.scratch, m.Wire, m.Pool); err != nil {
		return err
	}
	for i, row := range m.some {
		copy(m.sums[row*d:(row+1)*d], m.y[i*d:(i+1)*d])
	}
	return nil
}

// Wait returns the sums, rounded as a block.
func (m *Local) Wait(_ context.Context, out []float32) error {
	eachRow(workers{Pool: m.Pool}, len(out)/m.Hidden, m.Hidden/4, func(from, to int) { m.round(out, m.sums, from, to) })
	return nil
}

// round fills rows [from, to) of dst (…, D) with what the wire makes of those of x.
func (m *Local) round(dst, x []float32, from, to int) {
	from, to = from*m.Hidden, to*m.Hidden
	copy(dst[from:to], x[from:to])
	m.Wire.Round(dst[from:to])
}

// Read returns the bytes of expert weights that computing has taken so far.
func (m *Local) Read() int64 { return m.scratch.Read }
