package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// FollowShard calls fn for the records of all requests of a shard, from behind
// a place on, then live, until ctx ends or the stream is made anew, which is
// bus.ErrReplaced, as is a place that the stream does not have (a bus.LostEndError where it has lost its end). Whether a record follows is for its request's chain to say;
// err says that a message is no record at all. A shard has one follower at a time.
func (l *Log) FollowShard(ctx context.Context, shard int, after bus.Place, fn func(request string, e Entry, err error)) error {
	take := func(m bus.Stored) {
		e, err := decode(m)
		fn(schemas.LastToken(m.Subject), e, err)
	}
	return l.followShard(ctx, shard, after, take)
}

// followShard follows a shard beside the others, and alone while it is slower than they.
func (l *Log) followShard(ctx context.Context, shard int, after bus.Place, take func(bus.Stored)) error {
	if err := l.find(ctx, after); err != nil {
		return fmt.Errorf("following shard %d: %w", shard, err)
	}
	for {
		place, err := l.catchUp(ctx, shard, after, take)
		if err != nil {
			return err
		}
		if after, err = l.feed.follow(ctx, shard, place, take); !errors.Is(err, errSlow) {
			return err
		}
	}
}

// find is bus.ErrReplaced for a place that the stream does not have. The feed would not
// notice one behind the stream's end: it reads from the first place of all shards on, and
// passes nothing on to this one before the stream has come so far.
func (l *Log) find(ctx context.Context, place bus.Place) error {
	if place == (bus.Place{}) {
		return nil
	}
	begun := time.Now()
	for pauses := pause.Between(firstPause, lastPause); ; {
		state, err := l.conn.State(ctx, l.stream)
		missing := place.Missing(state, l.stream)
		catchesUp := l.conn.Clustered() && state.Incarnation == place.Incarnation && time.Since(begun) < bus.SettlesWithin
		if err == nil && (missing == nil || !catchesUp) {
			return missing
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// maxCatchUps is how often a shard's follower looks whether more has come meanwhile.
const maxCatchUps = 3

// catchUp reads what a shard has already through a consumer of its own, so that those of
// other shards do not wait for it in the feed, and returns the place where it has come to.
// Where nobody tells what there is, the feed begins at once: it waits for the stream.
func (l *Log) catchUp(ctx context.Context, shard int, after bus.Place, take func(bus.Stored)) (bus.Place, error) {
	subject := l.names.Subjects.TokenShard(shard)
	for range maxCatchUps {
		last, err := l.conn.Last(ctx, l.stream, subject)
		if err != nil || last.Sequence <= after.Sequence {
			return after, nil //nolint:nilerr // the feed's own errors count
		}
		err = l.conn.Follow(ctx, l.stream, []string{subject}, after, func(m bus.Stored) bool {
			take(m)
			after = after.Behind(m)
			return m.Sequence < last.Sequence
		})
		if err != nil {
			return after, err
		}
	}
	return after, nil
}
