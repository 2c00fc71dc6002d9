package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// endBroken ends a request whose log no replica can go on with. It tries until ctx
// ends: the stream may be full.
func (c *common) endBroken(ctx context.Context, request string, opened *pb.Accept, why *edge.Error) {
	end := &pb.Terminal{FinishReason: "error", Error: edge.Proto(why)}
	for {
		err := c.log.End(ctx, request, opened, end)
		switch {
		case err == nil, errors.Is(err, tokenlog.ErrFinished), errors.Is(err, tokenlog.ErrForeign), ctx.Err() != nil:
			return
		case !bus.IsFull(err):
			c.d.Logger.Warn("ending a request whose log is not whole; trying again", "request", request, "error", err)
		}
		if pause.For(ctx, time.Second) != nil {
			return
		}
	}
}
