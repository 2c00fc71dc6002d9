package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Get reads the message with a sequence, from the leader. It tries until ctx ends.
func (c *Conn) Get(ctx context.Context, stream string, sequence uint64) (Stored, error) {
	if sequence == 0 { // the server would take it for the first
		return Stored{}, fmt.Errorf("reading message 0 of stream %s: %w", stream, ErrNoMessage)
	}
	return c.get(ctx, stream, getRequest{Seq: sequence})
}

// Remove deletes one message; one that is not there is no error. It tries until ctx ends.
func (c *Conn) Remove(ctx context.Context, stream string, sequence uint64) error {
	err := c.onStream(ctx, "removing a message", stream, func(ctx context.Context, s jetstream.Stream) error {
		return s.DeleteMsg(ctx, sequence)
	})
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // the client library keeps no more of the reason
		if _, gone := c.Get(ctx, stream, sequence); errors.Is(gone, ErrNoMessage) {
			return nil
		}
	}
	return err
}

// RemoveUpTo deletes all messages up to a sequence. It tries until ctx ends.
func (c *Conn) RemoveUpTo(ctx context.Context, stream string, sequence uint64) error {
	return c.onStream(ctx, "purging stream "+stream, stream, func(ctx context.Context, s jetstream.Stream) error {
		return s.Purge(ctx, jetstream.WithPurgeSequence(sequence+1))
	})
}
