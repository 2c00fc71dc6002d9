package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// LogStore is a Conn's part that keeps a log: messages that come one behind the
// other, and that are read again.
type LogStore interface {
	MaxPayload() int64
	Clustered() bool
	Regained() time.Time
	State(ctx context.Context, stream string) (StreamState, error)
	StoreBytes(ctx context.Context, subject string, data []byte, header nats.Header) (seq uint64, err error)
	StoreAsync(ctx context.Context, subject string, data []byte, header nats.Header, done func(seq uint64, err error)) error
	Last(ctx context.Context, stream, subject string) (Stored, error)
	Next(ctx context.Context, stream, subject string, from uint64) (Stored, error)
	Follow(ctx context.Context, stream string, subjects []string, after Place, fn func(Stored) (more bool)) error
	Try(subject string, handle func() error) error
}
