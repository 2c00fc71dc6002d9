package predictor

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/policy/predict"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// worker predicts from one message after the other. One goroutine uses it.
type worker struct {
	d         *deployment.Deployment
	predictor predict.Predictor
	out       *deployment.LoadOutbox
	tracer    *telemetry.Tracer
	refused   pause.ErrorLog

	x    []float32 // (R, D)
	load []float64 // (E)
}

func newWorker(d *deployment.Deployment, id string, p predict.Predictor, out *deployment.LoadOutbox) *worker {
	return &worker{d: d, predictor: p, out: out, tracer: d.Telemetry.Tracer("predictor", id), load: make([]float64, d.Shape.Experts)}
}

// attempt predicts from a message. One that cannot be used is counted and costs nothing else.
func (w *worker) attempt(ctx context.Context, m *nats.Msg) {
	err := w.d.Conn.Try(m.Subject, func() error { return w.handle(w.d.Telemetry.Propagator.Extract(ctx, m.Header), m.Data) })
	if err != nil {
		w.d.Telemetry.Metrics.Refused.Inc()
		w.refused.Error(w.d.Logger, "hidden rows that nothing can be predicted from", err)
	}
}

func (w *worker) handle(ctx context.Context, body []byte) error {
	h := &pb.Hidden{}
	if err := proto.Unmarshal(body, h); err != nil {
		return fmt.Errorf("%w: decoding hidden rows: %w", wire.ErrMalformed, err)
	}
	rows, err := w.d.Shape.CheckHidden(h)
	if err != nil {
		return err
	}
	// Rows that are issued again were predicted from before.
	if target, ok := w.predictor.Target(int(h.Key.Layer)); ok && h.Key.Attempt == 0 {
		return w.predict(ctx, h, rows, target)
	}
	return nil
}

// predict tells what the rows of h will ask of the target layer.
func (w *worker) predict(ctx context.Context, h *pb.Hidden, rows, target int) error {
	_, span := w.tracer.Child(ctx, telemetry.SpanPredict, telemetry.Layer(uint32(target)), trace.WithAttributes(telemetry.AttrDistance.Int(w.predictor.Distance())))
	defer span.End()
	began := time.Now()
	w.x = reuse.Slice(w.x, rows*w.d.Shape.Hidden)
	if err := tensor.Decode(w.x, h.Tensor, w.d.Shape.Hidden); err != nil {
		return err
	}
	w.predictor.Predict(int(h.Key.Layer), w.x, rows, w.load)
	w.d.Telemetry.Metrics.Prediction(target).Observe(time.Since(began).Seconds())
	step := loads.StepOf(h)
	step.Distance = uint32(w.predictor.Distance())
	step.Expert, step.Count = rounded(w.load)
	w.out.Put(target, step)
	return nil
}

// rounded lists the experts that get rows, and how many; the sum is rounded once,
// so that the parts add up to it.
func rounded(load []float64) (experts, counts []uint32) {
	exact, told := 0.0, uint32(0)
	for e, v := range load {
		exact += v
		if n := uint32(math.Round(exact)) - told; n > 0 {
			experts, counts = append(experts, uint32(e)), append(counts, n)
			told += n
		}
	}
	return experts, counts
}
