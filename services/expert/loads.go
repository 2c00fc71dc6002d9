package expert

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/loads"
)

// listenForAsks has the next samples tell all totals when anybody asks for them.
func (s *Service) listenForAsks() (err error) {
	s.asks, err = s.d.Conn.Subscribe(s.d.Subjects.LoadAsk(), "", func(*nats.Msg) { s.asked.Store(true) })
	if err != nil {
		return fmt.Errorf("listening for who asks for the experts' loads: %w", err)
	}
	return nil
}

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
	samples := s.loads.Take(span, s.asked.Swap(false))
	for _, sample := range samples {
		// An error means disconnected: a later sample has the totals.
		_ = s.d.Conn.Send(ctx, s.d.Subjects.Load(), sample, nil)
	}
	if s.d.Loads != nil {
		s.sinkSamples(samples, span)
	}
}
