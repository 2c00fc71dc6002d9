package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/edge"
	"github.com/switchyard/switchyard/schemas"
)

const (
	// levelEvery is how often the durable streams are looked at.
	levelEvery = time.Second
	// fullShare of a stream's bound is where new requests are refused: the rest
	// is for those that run, since they were accepted.
	fullShare = 0.9
)

// levels says which durable streams are nearly full.
type levels struct {
	mu   sync.Mutex
	full map[string]string // by stream: how full it is
}

func (l *levels) set(stream string, s bus.StreamState) (share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.MaxBytes > 0 {
		share = float64(s.Bytes) / float64(s.MaxBytes)
	}
	delete(l.full, stream)
	if share >= fullShare {
		if l.full == nil {
			l.full = map[string]string{}
		}
		l.full[stream] = fmt.Sprintf("stream %s holds %d of its %d bytes", stream, s.Bytes, s.MaxBytes)
	}
	return share
}

// check refuses what would need room in streams that are nearly full.
func (l *levels) check(specs ...schemas.StreamSpec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, spec := range specs {
		if how := l.full[spec.Name]; how != "" {
			return edge.Errorf(edge.Overloaded, "%s, and the rest is for the requests that run: records leave it with their age (--log-bytes, --log-age)", how)
		}
	}
	return nil
}

// watchStreams looks at the durable streams until ctx ends: how full they are,
// and whether they are there at all.
func (s *Service) watchStreams(ctx context.Context) {
	tick := time.NewTicker(levelEvery)
	defer tick.Stop()
	for {
		for _, spec := range s.d.Streams.Durable() {
			s.lookAt(ctx, spec)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookAt makes a stream again that was deleted: everybody who follows it waits
// for that, and ends what it had.
func (s *Service) lookAt(ctx context.Context, spec schemas.StreamSpec) {
	state, err := s.d.Conn.State(ctx, spec.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.d.Logger.Warn("a stream is gone; making it again", "stream", spec.Name)
		err = s.d.Conn.Ensure(ctx, s.d.Replicas, spec)
		state = bus.StreamState{}
	}
	if err != nil {
		if ctx.Err() == nil {
			s.d.Logger.Debug("looking at a stream", "stream", spec.Name, "error", err) // the next look is a second away
		}
		return
	}
	s.metrics.StreamFill(spec.Name).Set(s.levels.set(spec.Name, state))
}
