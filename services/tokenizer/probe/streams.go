package probe

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// Streams are the durable streams and the buckets as they were seen last.
type Streams struct {
	Levels Levels
	Clock  ServerClock

	d      *deployment.Deployment
	ledger Ledger
}

// lookEvery is how often the durable streams are looked at.
const lookEvery = time.Second

// watch looks at the durable streams until ctx ends: how full they are,
// and whether they, and the buckets, are there at all.
func (w *Streams) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.Look(ctx, w.d.Streams.Durable()...)
		w.LookAtBuckets(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks at streams, and makes those again that were deleted: every follower of a
// stream waits for that, and ends what it had.
func (w *Streams) Look(ctx context.Context, specs ...schemas.StreamSpec) {
	for _, spec := range specs {
		w.look(ctx, spec)
	}
}

func (w *Streams) look(ctx context.Context, spec schemas.StreamSpec) {
	written, asked := w.ledger.Written(), w.Clock.Here()
	state, err := w.d.Conn.State(ctx, spec.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		w.d.Logger.Warn("a stream is gone; it is to be made again", "stream", spec.Name)
		err = w.again(ctx, spec)
		state = bus.StreamState{}
	}
	if err != nil {
		w.unseen(ctx, spec.Name, err)
		return
	}
	w.note(spec.Name, spec.Kind, cures[spec.Kind], state)
	switch spec.Name {
	case w.d.Streams.Tokens().Name:
		w.ledger.Looked(written)
	case w.d.Streams.Prompts().Name: // of this one alone: servers' clocks may differ, too
		w.Clock.set(state.Time, asked, w.Clock.Here())
	}
}

// LookAtBuckets makes buckets again that were deleted, and looks how full they are.
func (w *Streams) LookAtBuckets(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	if err := w.d.EnsureBuckets(within); err != nil && ctx.Err() == nil {
		w.d.Logger.Warn("buckets cannot be looked at, or one is gone and cannot be made again", "error", err)
	}
	for _, kind := range deployment.BucketKinds() {
		stream := schemas.BucketStream(w.d.Streams.Bucket(kind))
		state, err := w.d.Conn.State(ctx, stream)
		if err != nil {
			w.unseen(ctx, stream, err)
			continue
		}
		w.note(stream, kind, cures["bucket"], state)
	}
}

// againWithin bounds the wait for a stream that is made again, by this replica or by
// another one: the other streams are to be looked at.
const againWithin = 3 * time.Second

// again makes a stream again, or waits a while until another replica has.
func (w *Streams) again(ctx context.Context, spec schemas.StreamSpec) error {
	ctx, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	return w.d.EnsureStreams(ctx, spec)
}

// unseen tells of a look that failed; the next one is a second away.
func (w *Streams) unseen(ctx context.Context, stream string, err error) {
	if ctx.Err() == nil {
		w.d.Logger.Debug("looking at a stream", "stream", stream, "error", err)
	}
}

// note keeps what a look at a stream found, and warns of one that is nearly full.
func (w *Streams) note(stream, kind, cure string, state bus.StreamState) {
	if seen, warn := w.Levels.Set(stream, kind, state, time.Now()); warn {
		w.d.Logger.Warn("a stream is nearly full", "stream", stream, "holds", seen.How, "cure", cure)
	}
}
