package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

const (
	// levelEvery is how often the durable streams are looked at.
	levelEvery = time.Second
	// fullShare of a stream's bound is where new requests are refused: the rest
	// is for those that run, since they were accepted.
	fullShare = 0.9
)

// levels says how full the durable streams are.
type levels struct {
	mu   sync.Mutex
	full map[string]string // nearly full ones: how full
	seen map[string]level
}

// level is how full a stream was seen to be.
type level struct {
	stream       string
	bytes, bound int64 // bound 0: none, or nobody knows
	at           time.Time
}

func (l level) share() float64 {
	if l.bound == 0 {
		return 0
	}
	return float64(l.bytes) / float64(l.bound)
}

func (l *levels) set(stream string, s bus.StreamState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := level{stream, int64(s.Bytes), max(0, s.MaxBytes), time.Now()}
	if l.seen == nil {
		l.seen = map[string]level{}
	}
	l.seen[stream] = now
	delete(l.full, stream)
	if now.share() >= fullShare {
		if l.full == nil {
			l.full = map[string]string{}
		}
		l.full[stream] = fmt.Sprintf("stream %s holds %d of its %d bytes", stream, s.Bytes, s.MaxBytes)
	}
}

// share of a stream's bound, unless the last look at it is too old to tell.
func (l *levels) share(stream string) (share float64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.seen[stream]
	return seen.share(), time.Since(seen.at) < 3*levelEvery
}

// level of a stream at the last look.
func (l *levels) level(stream string) level {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[stream]
}

// streamFill is how full the durable streams are, by kind, as metrics show it.
func (s *Service) streamFill() map[string]float64 {
	fill := map[string]float64{}
	for kind, spec := range map[string]schemas.StreamSpec{
		"prompt": s.d.Streams.Prompts(), "sequence": s.d.Streams.Sequences(), "token": s.d.Streams.Tokens(),
	} {
		if share, known := s.levels.share(spec.Name); known {
			fill[kind] = share
		}
	}
	return fill
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
// and whether they, and the buckets, are there at all.
func (s *Service) watchStreams(ctx context.Context) {
	tick := time.NewTicker(levelEvery)
	defer tick.Stop()
	for {
		for _, spec := range s.d.Streams.Durable() {
			s.lookAt(ctx, spec)
		}
		if err := s.d.EnsureBuckets(ctx); err != nil && ctx.Err() == nil {
			s.d.Logger.Warn("a bucket is gone and cannot be made again", "error", err)
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
	written := s.reservations.written()
	state, err := s.d.Conn.State(ctx, spec.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.d.Logger.Warn("a stream is gone; making it again", "stream", spec.Name)
		err = s.d.EnsureStreams(ctx, spec)
		state = bus.StreamState{}
	}
	if err != nil {
		if ctx.Err() == nil {
			s.d.Logger.Debug("looking at a stream", "stream", spec.Name, "error", err) // the next look is a second away
		}
		return
	}
	s.levels.set(spec.Name, state)
	if spec.Name == s.d.Streams.Tokens().Name {
		s.reservations.looked(written)
	}
}
