package engine

import (
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// Settings are what one replica steps with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
	Tracer     *telemetry.Tracer

	Backbone *forward.Backbone
	KV       *kvcache.Pool
	// Device is what computes, if it can be lost; or nil.
	Device device.Failer
	// Remote makes the way to the routed experts for a microbatch, whose progress is counted.
	Remote func(microbatch int, progress *forward.Progress) Remote
	Rows   Rows
	// Drafts is how many tokens a draft has at most; 0: none are made.
	Drafts int
	// Directives say what gates are to obey in steps; nil: nothing.
	Directives Directives

	// SharePrefixes has sequences begin with the keys and values that others of their tenant have of
	// the same ids.
	SharePrefixes bool

	// Tasks are what goes on until it is done, and Stopped is closed when the replica stops.
	Tasks   *sync.WaitGroup
	Stopped <-chan struct{}
}

// Rows bound microbatches.
type Rows struct {
	// Max is the most rows of a microbatch, and Microbatches how many are in flight at once.
	Max, Microbatches int
	// Min is the fewest decode rows for which another worker is used; 0 is by the model's size.
	Min int
	// Drag is by what part of itself prompts may lengthen a step that has rows of answers; 0: by any.
	Drag float64
	// LongSteps lets prefill take as long as Max rows take.
	LongSteps bool
}

// policy is that of a model.
func (r Rows) policy(m *model.Model) batching.Policy {
	p := batching.Policy{
		Microbatches: r.Microbatches, MinRows: r.minRows(m), MaxRows: r.Max, MaxSeconds: r.maxSeconds(), MinPrefill: minPrefill(m), Beside: r.Drag,
	}
	p.LeastBeside = max(1, p.MinPrefill/leastPart)
	return p
}

// leastPart is what part of the rows that are worth reading the weights for goes beside rows of answers
// in any case, or prompts would hardly get on beside a step of few.
const leastPart = 4

// maxStep is about how long prefill may hold a worker: what streams, and what is
// cancelled, waits for that.
const maxStep = 250 * time.Millisecond

func (r Rows) maxSeconds() float64 {
	if r.LongSteps {
		return 0
	}
	return maxStep.Seconds()
}

// minPrefill is for how many rows reading the weights takes as long as
// computing them: each expert's share of that many rows is a few.
func minPrefill(m *model.Model) int {
	const few = 4
	return few * max(1, m.Spec.Experts/max(1, m.Spec.TopK))
}

// What decides alone how many decode rows are worth another worker.
const (
	fewRows = 8
	// cheapLayer is how many bytes of weights take about as long to read as a
	// layer's messages take to travel.
	cheapLayer = 32 << 20
)

// minRows is the fewest decode rows for which another worker is used. Each worker
// reads the weights anew, so workers that hide a small model's messages cost a
// large one more than its messages do.
func (r Rows) minRows(m *model.Model) int {
	switch {
	case r.Min > 0:
		return r.Min
	case m.Bytes/int64(m.Spec.Layers) <= cheapLayer:
		return fewRows
	}
	return r.Max
}
