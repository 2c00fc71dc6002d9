package deployment

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// gatherFor lets the microbatches of a few milliseconds travel together.
	gatherFor = 10 * time.Millisecond
	// maxGathered bounds a layer's microbatches that wait to be told.
	maxGathered = 64
)

// LoadOutbox gathers what a gate counts or a predictor expects of microbatches, and
// tells it by one sample a layer each few milliseconds. A nil one tells nobody. It is
// safe for concurrent use.
type LoadOutbox struct {
	sink    LoadSink
	model   uint64
	replica string
	source  pb.LoadSource
	note    chan struct{} // something waits to be told

	mu     sync.Mutex
	layers [][]*pb.StepLoad // that wait to be told
	since  time.Time        // when the first of them came
}

// NewLoadOutbox is a replica's; nil where nobody wants samples.
func (d *Deployment) NewLoadOutbox(replica string, source pb.LoadSource) *LoadOutbox {
	if d.Loads == nil {
		return nil
	}
	return &LoadOutbox{
		sink: d.Loads, model: d.Identity.Model, replica: replica, source: source,
		note: make(chan struct{}, 1), layers: make([][]*pb.StepLoad, len(d.Model.Spec.Layer)),
	}
}

// Put takes what is to be told of a layer's microbatch.
func (o *LoadOutbox) Put(layer int, step *pb.StepLoad) {
	if o == nil {
		return
	}
	o.mu.Lock()
	if o.since.IsZero() {
		o.since = time.Now()
	}
	o.layers[layer] = append(o.layers[layer], step)
	full := len(o.layers[layer]) == maxGathered
	o.mu.Unlock()
	if full {
		o.Flush()
	}
	pause.Wake(o.note)
}

// Run tells what was put in until ctx ends, and then what is left.
func (o *LoadOutbox) Run(ctx context.Context) {
	if o == nil {
		return
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-o.note:
			_ = pause.For(ctx, gatherFor) // ended: the loop finds that out
			o.Flush()
		}
	}
	o.Flush()
}

// Flush tells at once.
func (o *LoadOutbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	span := uint32(max(1, time.Since(o.since).Milliseconds()))
	o.since = time.Time{}
	for layer, steps := range o.layers {
		if len(steps) == 0 {
			continue
		}
		o.layers[layer] = nil
		o.sink.Send(&pb.LoadSample{
			Version: schemas.Version, Model: o.model, Host: o.replica, Layer: uint32(layer), SpanMs: span, Source: o.source, Steps: steps,
		})
	}
}
