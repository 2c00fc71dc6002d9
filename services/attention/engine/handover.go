package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// handOverWithin bounds the wait for the logs of a replica that stops.
const handOverWithin = 2 * time.Second

// handOver lets another replica go on with what a scheduler leaves, at once, and from where
// this one stopped.
func handOver(ctx context.Context, log *slog.Logger, closing []logWriter, open []*Sequence) {
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	var flushing sync.WaitGroup
	for _, w := range closing {
		flushing.Go(func() { flush(ctx, log, w) })
	}
	for _, s := range open {
		flushing.Go(func() {
			flush(ctx, log, s.writer)
			if err := s.delivery.Nak(0); err != nil {
				log.Debug("handing over", "request", s.seq.RequestId, "error", err)
			}
		})
	}
	flushing.Wait()
}

// flush waits for a log's records. What is not stored in time is lost, and the
// next owner makes it again.
func flush(ctx context.Context, log *slog.Logger, w logWriter) {
	if err := w.Flush(ctx); err != nil {
		log.Info("handing over a log", "error", err)
	}
}
