package deployment

import (
	"context"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/transfer/store"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rows moves the rows of one replica, over messages and objects.
func (d *Deployment) Rows(tracer *telemetry.Tracer) *transfer.Link {
	return transfer.New(transfer.Settings{
		Sender: d.Hop, Objects: store.New(d.Conn, d.Streams), Shape: d.Shape, RowBytes: d.Shape.Hidden * d.Wire.ElementBytes(),
		Payload: func() int { return int(d.Conn.MaxPayload()) }, Observer: d.Telemetry.Metrics.Transfers,
		Span: func(ctx context.Context, stage string, key *pb.Key, minibatch int) (end func()) {
			_, span := tracer.Child(ctx, stage, telemetry.Layer(key.GetLayer()), telemetry.Attempt(key.GetAttempt()), telemetry.Minibatch(minibatch))
			return func() { span.End() }
		},
	})
}
