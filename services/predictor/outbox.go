package predictor

import (
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// batchFor is how long a prediction waits for others.
	batchFor = 10 * time.Millisecond
	// batchSteps bounds how many go into one sample.
	batchSteps = 64
)

// outbox gathers the predictions of some milliseconds into one sample a layer.
// One goroutine uses it.
type outbox struct {
	model   uint64
	replica string
	send    func(*pb.LoadSample)

	layers  [][]*pb.StepLoad
	pending int       // predictions of all layers
	since   time.Time // when the oldest of them came
}

func newOutbox(model uint64, replica string, layers int, send func(*pb.LoadSample)) *outbox {
	return &outbox{model: model, replica: replica, send: send, layers: make([][]*pb.StepLoad, layers)}
}

// put takes a prediction of a layer in.
func (o *outbox) put(now time.Time, layer int, step *pb.StepLoad) {
	if o.pending == 0 {
		o.since = now
	}
	o.pending++
	o.layers[layer] = append(o.layers[layer], step)
	if len(o.layers[layer]) >= batchSteps {
		o.flushLayer(now, layer)
	}
}

// flushDue sends what waits if some of it has waited long enough, and returns how
// long the rest may wait; ok is whether there is any.
func (o *outbox) flushDue(now time.Time) (wait time.Duration, ok bool) {
	left := batchFor - now.Sub(o.since)
	if o.pending > 0 && left <= 0 {
		o.flush(now)
	}
	return left, o.pending > 0
}

// flush sends what waits.
func (o *outbox) flush(now time.Time) {
	for layer := range o.layers {
		o.flushLayer(now, layer)
	}
}

func (o *outbox) flushLayer(now time.Time, layer int) {
	steps := o.layers[layer]
	if len(steps) == 0 {
		return
	}
	o.layers[layer] = nil
	o.pending -= len(steps)
	o.send(&pb.LoadSample{
		Version: schemas.Version, Model: o.model, Host: o.replica, Layer: uint32(layer), Source: pb.LoadSource_LOAD_SOURCE_PREDICTOR,
		SpanMs: uint32(max(1, now.Sub(o.since).Milliseconds())), Steps: steps,
	})
}
