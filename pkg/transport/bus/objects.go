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
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
		_, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: bucket, Storage: jetstream.FileStorage, Replicas: c.streamReplicas(),
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			return nil
		}
		return err
	})
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
		s, err := c.js.Stream(ctx, stream)
		if err == nil {
			err = do(ctx, s)
		}
		if denied := c.denied.Load(); err != nil && denied != before {
			return fmt.Errorf("%w", *denied)
		}
		return err
	})
}

// DeleteObjects removes an object store with all that is in it.
func (c *Conn) DeleteObjects(ctx context.Context, bucket string) error {
	return c.insist(ctx, "removing the object store "+bucket, func() error {
		ctx, cancel := context.WithTimeout(ctx, largeWithin)
		defer cancel()
		return c.js.DeleteObjectStore(ctx, bucket)
	})
}

// IsNoRoom says whether the server refused something because it would be too
// much for its storage, the account's or the stream's.
func IsNoRoom(err error) bool {
	var api *jetstream.APIError
	return IsFull(err) || errors.As(err, &api) && (api.ErrorCode == codeNoStorage || api.ErrorCode == codeAccountFull)
}
