package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/services/expert/residency"
)

const (
	// waitAtOnce bounds the dispatches by name that wait for functions.
	waitAtOnce = 64
	// waitByName is how long one does: attention asks others too by then.
	waitByName = 10 * time.Second
)

// receiveByName computes what was sent to this host, if it has the function or can have it.
// Rows wait meanwhile. What the host cannot compute it declines, so that attention asks another
// host at once.
func (s *Serving) receiveByName(ctx context.Context, in incoming) error {
	if err := s.d.Shape.CheckKey(in.d.Key); err != nil {
		return s.refuse(ctx, in.d, err)
	}
	f, warm, err := s.Functions.Named(int(in.d.Key.Layer), in.d.Function)
	switch {
	case err != nil:
		return s.decline(ctx, in.d, err)
	case warm:
		return s.serve(ctx, f, in)
	}
	return s.await(ctx, f, in)
}

// await computes a dispatch when its function is warm, beside those that come after it.
func (s *Serving) await(ctx context.Context, f *residency.Function, in incoming) error {
	select {
	case s.awaiting <- struct{}{}:
	default:
		return s.decline(ctx, in.d, fmt.Errorf("%w: %d dispatches wait for functions", residency.ErrDeclined, waitAtOnce))
	}
	s.waiters.Go(func() {
		defer func() { <-s.awaiting }()
		defer s.d.Conn.Recover(s.d.Subjects.Host(s.Host))
		waiting, stop := context.WithTimeout(ctx, waitByName)
		defer stop()
		if err := s.serve(waiting, f, in); err != nil && !errors.Is(err, wire.ErrLate) {
			_ = s.decline(ctx, in.d, err) // attention asks again anyway
		}
	})
	return nil
}
