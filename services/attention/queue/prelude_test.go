package queue

import (
	"context"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A sequence waits for what comes before it, unless it is cancelled meanwhile; the end of the
// replica is no cancellation.
func TestPrelude(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		before func(*prelude) func(context.Context, *pb.Sequence)
		want   bool
	}{
		{"nothing", t.Context(), func(*prelude) func(context.Context, *pb.Sequence) { return nil }, true},
		{"what is ready", t.Context(), func(*prelude) func(context.Context, *pb.Sequence) { return func(context.Context, *pb.Sequence) {} }, true},
		{"what is not, and is cancelled", t.Context(), func(w *prelude) func(context.Context, *pb.Sequence) {
			return func(ctx context.Context, s *pb.Sequence) {
				w.cancel("another")
				w.cancel(s.RequestId)
				<-ctx.Done()
			}
		}, false},
		{"the replica's end", ended, func(*prelude) func(context.Context, *pb.Sequence) {
			return func(ctx context.Context, _ *pb.Sequence) { <-ctx.Done() }
		}, true},
	} {
		w := &prelude{stops: map[string]context.CancelFunc{}}
		w.before = tc.before(w)
		if got := w.await(tc.ctx, &pb.Sequence{RequestId: "r"}); got != tc.want || len(w.stops) != 0 {
			t.Errorf("%s: %v, %d wait", tc.name, got, len(w.stops))
		}
	}
}
