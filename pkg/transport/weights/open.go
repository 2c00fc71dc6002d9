package weights

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// openRetry is the pause before a slow store is asked again.
const openRetry = 500 * time.Millisecond

// Open opens a model of the store, whose pieces are fetched when they are needed.
// It waits for a slow store until ctx ends. Closing the model closes the connection.
// log hears of what is waited for.
func Open(ctx context.Context, conn *bus.Conn, prefix, name string, log *slog.Logger) (*model.Model, error) {
	return New(conn, prefix, name).open(ctx, log)
}

// OpenNow is Open for who does not wait: a slow store is ErrSlow.
func OpenNow(ctx context.Context, conn *bus.Conn, prefix, name string, log *slog.Logger) (*model.Model, error) {
	return New(conn, prefix, name).openOnce(ctx, log)
}

func (s *Store) open(ctx context.Context, log *slog.Logger) (*model.Model, error) {
	var said pause.ErrorLog
	for {
		m, err := s.openOnce(ctx, log)
		if !errors.Is(err, ErrSlow) || ctx.Err() != nil {
			return m, err
		}
		said.Error(log, "opening the model failed; trying again until the store answers: look at `nats stream info "+s.stream()+"`, and at the server's disk and network", err)
		if pause.For(ctx, openRetry) != nil {
			return nil, err
		}
	}
}

func (s *Store) openOnce(ctx context.Context, log *slog.Logger) (*model.Model, error) {
	m, err := s.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	return model.FromStore(ctx, s.model, m, s, log)
}

// Close closes the connection.
func (s *Store) Close() error {
	s.conn.Close()
	return nil
}
