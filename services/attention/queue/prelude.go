package queue

import (
	"context"
	"sync"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// prelude is what sequences wait for whose turn it is. They can be cancelled meanwhile.
type prelude struct {
	before func(context.Context, *pb.Sequence) // nil: sequences wait for nothing

	mu    sync.Mutex
	stops map[string]context.CancelFunc
}

// await waits for what is to come before a sequence; false where that was cancelled.
func (w *prelude) await(ctx context.Context, s *pb.Sequence) bool {
	if w.before == nil {
		return true
	}
	own, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	w.stops[s.RequestId] = stop
	w.mu.Unlock()
	w.before(own, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stops, s.RequestId)
	return own.Err() == nil || ctx.Err() != nil
}

// cancel ends a sequence's wait.
func (w *prelude) cancel(request string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.stops[request]; stop != nil {
		stop()
	}
}
