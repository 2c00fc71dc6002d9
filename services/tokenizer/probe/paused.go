package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// watchConsumers looks until ctx ends whether somebody has paused a consumer of prompts or sequences, as
// "nats consumer pause" does: nothing is delivered then, and nothing else says so.
func (p *Probe) watchConsumers(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		p.lookForPause(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookForPause looks once, and logs what has changed. What the server does not tell changes nothing.
func (p *Probe) lookForPause(ctx context.Context) {
	var found error
	for _, q := range p.depths.queues {
		looking, cancel := context.WithTimeout(ctx, lookWithin)
		c, err := p.d.Conn.JetStream().Consumer(looking, q.stream, q.group)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound):
		case err != nil:
			return
		case c.CachedInfo().Paused:
			end := time.Now().Add(c.CachedInfo().PauseRemaining).UTC().Truncate(time.Second)
			found = errors.Join(found, fmt.Errorf("consumer %s of stream %s is paused until %s: nats consumer resume %s %s", q.group, q.stream, end.Format(time.RFC3339), q.stream, q.group))
		}
	}
	switch before := p.Paused(); {
	case found != nil && before == nil:
		p.d.Logger.Error("somebody has paused a consumer: no request goes on", "error", found)
	case found == nil && before != nil:
		p.d.Logger.Info("no consumer is paused any more")
	}
	p.paused.Store(&found)
}

// Paused is why no request goes on, where somebody has paused a consumer of them; nil: nobody has.
func (p *Probe) Paused() error {
	if at := p.paused.Load(); at != nil {
		return *at
	}
	return nil
}
