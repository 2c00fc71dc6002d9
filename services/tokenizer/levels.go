package tokenizer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/process/deployment"
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
	// warnShare of it is worth a line in the log, at most one in warnEvery.
	warnShare = 0.8
	warnEvery = time.Minute
)

// cures say what to do about a stream that is nearly full, by its kind.
var cures = map[string]string{
	"prompt":   "prompts come faster than they are taken: start more tokenizers, or attention replicas",
	"sequence": "many requests wait, or long ones: start more attention replicas, or lower --max-queued",
	"token":    "records leave it with their age: raise --log-bytes, shorten --log-age, or ask for fewer scores and logprobs",
	"dlq":      "the oldest go for new ones: switchyard dlq shows why there are so many, and drops them",
	"bucket":   "services write few keys there and renew them: see whose the others are (nats kv ls)",
}

// levels says how full the durable streams are.
type levels struct {
	mu     sync.Mutex
	seen   map[string]level // by stream
	warned map[string]time.Time
}

// level is how full a stream was seen to be.
type level struct {
	stream, kind string
	bytes, bound int64 // bound 0: none, or nobody knows
	share        float64
	how          string // how full, in words
	at           time.Time
}

// set takes in what a stream holds, and says whether that is worth a warning.
func (l *levels) set(stream, kind string, s bus.StreamState, now time.Time) (seen level, warn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen, l.warned = map[string]level{}, map[string]time.Time{}
	}
	seen = level{stream: stream, kind: kind, bytes: int64(s.Bytes), bound: max(0, s.MaxBytes), at: now}
	seen.share, seen.how = s.Fill()
	l.seen[stream] = seen
	warn = seen.share >= warnShare && now.Sub(l.warned[stream]) >= warnEvery
	if warn {
		l.warned[stream] = now
	}
	return seen, warn
}

// shares are the shares of their bounds that streams hold, unless the last look
// at one is too old to tell.
func (l *levels) shares() map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]float64{}
	for _, seen := range l.seen {
		if time.Since(seen.at) < 3*levelEvery {
			out[seen.kind] = seen.share
		}
	}
	return out
}

// level of a stream at the last look.
func (l *levels) level(stream string) level {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[stream]
}

// check refuses what would need room in streams that are nearly full.
func (l *levels) check(specs ...schemas.StreamSpec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, spec := range specs {
		if seen := l.seen[spec.Name]; seen.share >= fullShare {
			return edge.Errorf(edge.Overloaded, "stream %s holds %s, and the rest is for the requests that run; %s", spec.Name, seen.how, cures[spec.Kind])
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
		s.lookAtBuckets(ctx)
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
	written, asked := s.reservations.written(), s.clock.here()
	state, err := s.d.Conn.State(ctx, spec.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s.d.Logger.Warn("a stream is gone; it is to be made again", "stream", spec.Name)
		err = s.again(ctx, spec)
		state = bus.StreamState{}
	}
	if err != nil {
		s.unseen(ctx, spec.Name, err)
		return
	}
	s.note(spec.Name, spec.Kind, cures[spec.Kind], state)
	switch spec.Name {
	case s.d.Streams.Tokens().Name:
		s.reservations.looked(written)
	case s.d.Streams.Prompts().Name: // of this one alone: servers' clocks may differ, too
		s.clock.set(state.Time, asked, s.clock.here())
	}
}

// lookAtBuckets makes buckets again that were deleted, and looks how full they are.
func (s *Service) lookAtBuckets(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	if err := s.d.EnsureBuckets(within); err != nil && ctx.Err() == nil {
		s.d.Logger.Warn("buckets cannot be looked at, or one is gone and cannot be made again", "error", err)
	}
	for _, kind := range deployment.BucketKinds() {
		stream := schemas.BucketStream(s.d.Streams.Bucket(kind))
		state, err := s.d.Conn.State(ctx, stream)
		if err != nil {
			s.unseen(ctx, stream, err)
			continue
		}
		s.note(stream, kind, cures["bucket"], state)
	}
}

// againWithin bounds the wait for a stream that is made again, by this replica or by who
// else may: the others are to be looked at.
const againWithin = 3 * time.Second

// again makes a stream again, or waits a while until somebody has.
func (s *Service) again(ctx context.Context, spec schemas.StreamSpec) error {
	ctx, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	return s.d.EnsureStreams(ctx, spec)
}

// unseen tells of a look that failed; the next one is a second away.
func (s *Service) unseen(ctx context.Context, stream string, err error) {
	if ctx.Err() == nil {
		s.d.Logger.Debug("looking at a stream", "stream", stream, "error", err)
	}
}

// note keeps what a look at a stream found, and warns of one that is nearly full.
func (s *Service) note(stream, kind, cure string, state bus.StreamState) {
	if seen, warn := s.levels.set(stream, kind, state, time.Now()); warn {
		s.d.Logger.Warn("a stream is nearly full", "stream", stream, "holds", seen.how, "cure", cure)
	}
}
