package weights

import (
	"context"
	"log/slog"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// Open opens a model of the store, whose pieces are fetched when they are needed.
// Closing the model closes the connection. log hears of files that are waited for.
func Open(ctx context.Context, conn *bus.Conn, prefix, name string, log *slog.Logger) (*model.Model, error) {
	s := New(conn, prefix, name)
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
