package bus

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// unacknowledged deletes streams, and the first answer is lost.
type unacknowledged struct {
	jetstream.JetStream
	deleted int
}

func (u *unacknowledged) DeleteStream(ctx context.Context, name string) error {
	if err := u.JetStream.DeleteStream(ctx, name); err != nil {
		return err
	}
	if u.deleted++; u.deleted == 1 {
		return fmt.Errorf("deleting: %w", context.DeadlineExceeded)
	}
	return nil
}

// Streams that are there are deleted and named, also where the answer is lost; others are passed over.
func TestDiscard(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsAcked)
	if err := r.conn.Ensure(r.ctx(), 1, s.Gate(), s.Host()); err != nil {
		t.Fatal(err)
	}
	r.conn.js = &unacknowledged{JetStream: r.conn.js}
	gone, err := r.conn.Discard(r.ctx(), s.Gate().Name, s.Block().Name, s.Host().Name)
	if err != nil || len(gone) != 2 || !gone[0].Gone || gone[0].Stream.Name != s.Gate().Name || gone[1].Stream.Name != s.Host().Name {
		t.Errorf("%+v, %v", gone, err)
	}
}

// Who may not delete a stream hears so.
func TestDiscardDenied(t *testing.T) {
	t.Parallel()
	s := names(schemas.HopsAcked)
	c := denied(t, "$JS.API.STREAM.DELETE.>")
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := c.Ensure(ctx, 1, s.Gate()); err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Discard(ctx, s.Gate().Name); !IsDenied(err) || len(gone) > 0 || ctx.Err() != nil {
		t.Errorf("%+v, %v", gone, err)
	}
}
