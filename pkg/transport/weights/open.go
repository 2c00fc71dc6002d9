package weights

import (
	"context"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// Open opens a model of the store, whose pieces are fetched when they are needed.
// Closing the model closes the connection.
func Open(ctx context.Context, conn *bus.Conn, prefix, name string) (*model.Model, error) {
	s := New(conn, prefix, name)
	m, err := s.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	return model.FromStore(ctx, s.model, m, s)
}

// Close closes the connection.
func (s *Store) Close() error {
	s.conn.Close()
	return nil
}
