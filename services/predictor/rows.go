package predictor

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// everyRow follows the stream of all rows, in the order in which attention sent them: all
// predictors read the same. Nobody waits for it; what the stream has dropped before it was
// read is counted.
type everyRow struct {
	d       *deployment.Deployment
	next    uint64 // of the stream; 0 before the first message
	refused pause.ErrorLog
	// step and rows see what comes; nil: it is counted alone.
	step func(*pb.Step)
	rows func(*pb.Hidden)

	steps, seen atomic.Uint64
}

// run reads until ctx ends.
func (e *everyRow) run(ctx context.Context) error {
	err := e.d.Conn.Follow(ctx, e.d.Streams.Rows().Name, []string{e.d.Subjects.AnyRows()}, bus.Place{}, func(m bus.Stored) bool {
		e.take(m)
		return ctx.Err() == nil
	})
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("reading all rows: %w", err)
}

func (e *everyRow) take(m bus.Stored) {
	if e.next > 0 && m.Sequence > e.next {
		e.d.Telemetry.Metrics.PredictionsLost.Add(float64(m.Sequence - e.next))
	}
	e.next = m.Sequence + 1
	err := e.d.Conn.Try(m.Subject, func() error {
		if m.Subject == e.d.Subjects.RowsStep() {
			return e.takeStep(m.Data)
		}
		return e.takeRows(m.Data)
	})
	if err != nil {
		e.d.Telemetry.Metrics.Refused.Inc()
		e.refused.Error(e.d.Logger, "a copy of rows that cannot be used", err)
	}
}

func (e *everyRow) takeStep(body []byte) error {
	s := &pb.Step{}
	if err := proto.Unmarshal(body, s); err != nil {
		return fmt.Errorf("%w: decoding a step: %w", wire.ErrMalformed, err)
	}
	if err := e.d.Identity.Check(s.Version, s.Model); err != nil {
		return err
	}
	if !schemas.IsReplicaID(s.Owner) {
		return fmt.Errorf("%w: a step of owner %.64q, which is no replica's id", wire.ErrMalformed, s.Owner)
	}
	e.steps.Add(1)
	if e.step != nil {
		e.step(s)
	}
	return nil
}

func (e *everyRow) takeRows(body []byte) error {
	h := &pb.Hidden{}
	if err := proto.Unmarshal(body, h); err != nil {
		return fmt.Errorf("%w: decoding hidden rows: %w", wire.ErrMalformed, err)
	}
	rows, err := e.d.Shape.CheckHidden(h)
	if err != nil {
		return err
	}
	e.seen.Add(uint64(rows))
	if e.rows != nil {
		e.rows(h)
	}
	return nil
}
