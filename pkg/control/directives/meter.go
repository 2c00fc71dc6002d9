package directives

import (
	"math"
	"sync"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// MeterEvery is how often a replica tells what it has measured.
const MeterEvery = 250 * time.Millisecond

const (
	// MostTimes bounds the times of a phase in one message.
	MostTimes = 512
	// MostCurves bounds the steps of which a message has curves.
	MostCurves = 16
	// CurveEvery is how often gates are asked for the curve of a phase's step.
	CurveEvery = 250 * time.Millisecond
	// Points is at how many thresholds they are asked for it.
	Points = 11
	// mostRows bounds the rows of a step.
	mostRows = 1 << 20
)

// Meter measures the steps of one replica. It is safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	of      *pb.Latencies // what is told next
	waiting float64
	busy    bool
	coming  int
}

// NewMeter is of a run of a replica, which life names.
func NewMeter(model uint64, replica string, life uint64) *Meter {
	return &Meter{of: &pb.Latencies{Version: schemas.Version, Model: model, Replica: replica, Life: life}}
}

// Step takes in what a step took; prefill is one with rows of a prompt.
func (m *Meter) Step(prefill bool, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := &m.of.DecodeSeconds
	if prefill {
		list = &m.of.PrefillSeconds
	}
	if len(*list) < MostTimes {
		*list = append(*list, float32(took.Seconds()))
	}
}

// Curve takes in what gates have told of a step.
func (m *Meter) Curve(c *pb.StepCurve) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of.Curves) < MostCurves {
		m.of.Curves = append(m.of.Curves, c)
	}
}

// Wait takes in how long requests have waited for their first token, whether there are any, and how
// many rows more steps will have for them.
func (m *Meter) Wait(longest time.Duration, busy bool, coming int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting, m.busy, m.coming = longest.Seconds(), busy, coming
}

// Take is what there is to tell; nil: nothing.
func (m *Meter) Take() *pb.Latencies {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.busy && len(m.of.PrefillSeconds)+len(m.of.DecodeSeconds) == 0 {
		return nil
	}
	out := m.of
	out.Number, out.WaitedSeconds, out.Busy, out.ComingRows = out.Number+1, float32(m.waiting), m.busy, uint32(m.coming)
	m.of = &pb.Latencies{Version: out.Version, Model: out.Model, Replica: out.Replica, Life: out.Life, Number: out.Number}
	return out
}

// mostReplicas bounds the senders that a controller remembers.
const mostReplicas = 1024

// heard says which messages of latencies count.
type heard struct {
	model uint64
	from  map[string]*pb.Latencies // the newest of each replica, without its times
}

// take says whether a message is one of this model that was not heard before.
func (h *heard) take(l *pb.Latencies) bool {
	before := h.from[l.Replica]
	switch {
	case l.Version != schemas.Version || l.Model != h.model || !schemas.IsReplicaID(l.Replica):
		return false
	case len(l.PrefillSeconds) > MostTimes || len(l.DecodeSeconds) > MostTimes || len(l.Curves) > MostCurves || l.ComingRows > mostRows:
		return false
	case !(l.WaitedSeconds >= 0) || math.IsInf(float64(l.WaitedSeconds), 0):
		return false
	case before != nil && before.Life == l.Life && l.Number <= before.Number:
		return false
	case before == nil && len(h.from) == mostReplicas:
		clear(h.from)
	}
	h.from[l.Replica] = &pb.Latencies{Life: l.Life, Number: l.Number}
	return true
}
