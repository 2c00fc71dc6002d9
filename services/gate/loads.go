package gate

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/pause"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// loadsEvery lets the microbatches of a few milliseconds travel together.
	loadsEvery = 10 * time.Millisecond
	// maxSteps bounds a layer's microbatches that wait to be told.
	maxSteps = 64
)

// loadMeter tells how many rows each microbatch gives to each expert. A nil one
// tells nobody.
type loadMeter struct {
	sink  deployment.LoadSink
	model uint64
	gate  string
	note  chan struct{} // something waits to be told
	rows  []uint32      // of each expert; of one microbatch at a time

	mu     sync.Mutex
	layers [][]*pb.StepLoad // that wait to be told
	since  time.Time        // when the first of them came
}

func newLoadMeter(d *deployment.Deployment, gate string) *loadMeter {
	if d.Loads == nil {
		return nil
	}
	return &loadMeter{
		sink: d.Loads, model: d.Identity.Model, gate: gate, note: make(chan struct{}, 1),
		rows: make([]uint32, d.Model.Spec.Experts), layers: make([][]*pb.StepLoad, len(d.Model.Spec.Layer)),
	}
}

// count takes one part of a microbatch, which goes by a version of the layer's plan.
// Rows that were lost and come again have been counted. One goroutine at a time
// calls it.
func (m *loadMeter) count(h *pb.Hidden, routes *forward.Routes, version uint64) {
	if m == nil || h.Key.Attempt > 0 {
		return
	}
	s := &pb.StepLoad{
		Owner: h.Key.Owner, Epoch: h.Key.Epoch, Step: h.Key.Step, Rows: h.Key.Rows, PrefillRows: prefill(h), PlanVersion: version,
	}
	s.Expert, s.Count = m.tally(routes)
	m.add(int(h.Key.Layer), s)
}

// tally lists the experts that have rows, and how many.
func (m *loadMeter) tally(routes *forward.Routes) (experts, counts []uint32) {
	some := 0
	for _, e := range routes.Expert {
		if e == forward.NoExpert {
			continue
		}
		if m.rows[e] == 0 {
			some++
		}
		m.rows[e]++
	}
	both := make([]uint32, 0, 2*some)
	for e, n := range m.rows {
		if n > 0 {
			both = append(both, uint32(e))
		}
	}
	for _, e := range both[:some] {
		both = append(both, m.rows[e])
		m.rows[e] = 0
	}
	return both[:some:some], both[some:]
}

func prefill(h *pb.Hidden) (rows uint32) {
	for _, p := range h.Phases {
		if p.Phase == pb.Phase_PHASE_PREFILL {
			rows += p.Rows
		}
	}
	return rows
}

func (m *loadMeter) add(layer int, s *pb.StepLoad) {
	m.mu.Lock()
	if m.since.IsZero() {
		m.since = time.Now()
	}
	m.layers[layer] = append(m.layers[layer], s)
	full := len(m.layers[layer]) == maxSteps
	m.mu.Unlock()
	if full {
		m.tell()
	}
	select {
	case m.note <- struct{}{}:
	default:
	}
}

// run tells what was counted until ctx ends, and then what is left to tell.
func (m *loadMeter) run(ctx context.Context) {
	if m == nil {
		return
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-m.note:
			_ = pause.For(ctx, loadsEvery) // ended: the loop finds that out
			m.tell()
		}
	}
	m.tell()
}

// tell hands on a sample for each layer that has something to tell.
func (m *loadMeter) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	span := uint32(max(1, time.Since(m.since).Milliseconds()))
	m.since = time.Time{}
	for layer, steps := range m.layers {
		if len(steps) == 0 {
			continue
		}
		m.layers[layer] = nil
		m.sink.Send(&pb.LoadSample{
			Version: schemas.Version, Model: m.model, Host: m.gate, Layer: uint32(layer), SpanMs: span,
			Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: steps,
		})
	}
}
