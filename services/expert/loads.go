package expert

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/control/loads"
)

// sendLoads says about once a second what each expert has computed, until ctx
// ends, and then what is left to say.
func (s *Service) sendLoads(ctx context.Context) {
	tick := time.NewTicker(loads.Every)
	defer tick.Stop()
	before := time.Now()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		now := time.Now()
		s.sendSamples(context.WithoutCancel(ctx), now.Sub(before))
		before = now
	}
}

func (s *Service) sendSamples(ctx context.Context, span time.Duration) {
	for _, sample := range s.loads.Take(span) {
		// An error means disconnected: loads of that time are not known to anybody.
		_ = s.d.Conn.Send(ctx, s.d.Subjects.Load(), sample, nil)
	}
}
