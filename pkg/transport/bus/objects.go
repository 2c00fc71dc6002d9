package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Object stores are streams; here is what they need beside reading and storing.

// EnsureObjects creates an object store's stream unless it is there, as Persist does.
func (c *Conn) EnsureObjects(ctx context.Context, replicas int, bucket string) error {
	c.replicas.Store(int64(replicas))
	return c.Persist(ctx, "creating the object store "+bucket, func(ctx context.Context) error {
		_, err := c.js.ObjectStore(ctx, bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			_, err = c.makeStream(ctx, objectsConfig(bucket, c.streamReplicas()))
		}
		return err
	})
}

// objectsConfig is an object store as the client library makes it.
func objectsConfig(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: objectsPrefix + bucket, Subjects: []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		Storage: jetstream.FileStorage, Replicas: replicas, MaxBytes: -1, MaxMsgsPerSubject: -1,
		Discard: jetstream.DiscardNew, AllowRollup: true, AllowDirect: true,
	}
}

// largeWithin bounds one attempt at what takes a server long for large streams.
const largeWithin = 10 * time.Second

// Subjects counts a stream's messages by subject, of the subjects that match, and
// says how many bytes the whole stream has. It tries until ctx ends; no stream is
// jetstream.ErrStreamNotFound.
func (c *Conn) Subjects(ctx context.Context, stream, match string) (counts map[string]uint64, bytes uint64, err error) {
	err = c.onStream(ctx, "looking at stream "+stream, stream, func(ctx context.Context, s jetstream.Stream) error {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(match))
		if err == nil {
			counts, bytes = info.State.Subjects, info.State.Bytes
		}
		return err
	})
	return counts, bytes, err
}

// Purge removes a subject's messages. It tries until ctx ends.
func (c *Conn) Purge(ctx context.Context, stream, subject string) error {
	return c.onStream(ctx, "purging "+subject, stream, func(ctx context.Context, s jetstream.Stream) error {
		return s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	})
}

// onStream insists; a missing permission ends it.
func (c *Conn) onStream(ctx context.Context, act, stream string, do func(context.Context, jetstream.Stream) error) error {
	return c.insist(ctx, act, func() error {
		ctx, cancel := context.WithTimeout(ctx, largeWithin)
		defer cancel()
		before := c.denied.Load()
		opening, opened := context.WithTimeout(ctx, stateWithin)
		s, err := c.js.Stream(opening, stream)
		opened()
		if err == nil {
			err = do(ctx, s)
		}
		if denied := c.denied.Load(); err != nil && denied != before {
			return fmt.Errorf("%w", *denied)
		}
		return err
	})
}

// Empty removes all that is in a stream, and leaves the stream: who may not make one
// could not make it again. It tries until ctx ends.
func (c *Conn) Empty(ctx context.Context, stream string) error {
	return c.onStream(ctx, "removing all of stream "+stream, stream, func(ctx context.Context, s jetstream.Stream) error {
		return s.Purge(ctx)
	})
}

// IsNoRoom reports whether the server refused something because it would be too
// much for its storage, the account's or the stream's.
func IsNoRoom(err error) bool {
	var api *jetstream.APIError
	return IsFull(err) || errors.As(err, &api) && (api.ErrorCode == codeNoStorage || api.ErrorCode == codeAccountFull)
}
