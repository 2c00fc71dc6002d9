package weights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// Listed is a model of the store.
type Listed struct {
	Name string `json:"name"`
	// Model is its hash; empty while it is not whole.
	Model   string `json:"model"`
	Objects int    `json:"objects"`
	// Bytes are those of whole objects or, of a model that is not whole, of what there is.
	Bytes int64 `json:"bytes"`
	Whole bool  `json:"whole"`
}

// State says whether the model can be served.
func (l Listed) State() string {
	if l.Whole {
		return "whole"
	}
	return "not whole; push it again, or remove it"
}

// List lists the models of a prefix by name.
func List(ctx context.Context, conn *bus.Conn, prefix string) (list []Listed, err error) {
	begin := "OBJ_" + prefix + "_" + bucketKind + "_"
	names := conn.JetStream().StreamNames(ctx)
	for name := range names.Name() {
		model, ours := strings.CutPrefix(name, begin)
		if !ours {
			continue
		}
		l, err := New(conn, prefix, model).look(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	return list, names.Err()
}

// look tells a whole model from the rest of one.
func (s *Store) look(ctx context.Context) (Listed, error) {
	l := Listed{Name: s.model}
	m, err := s.Manifest(ctx)
	if err == nil {
		l.Model, l.Objects, l.Bytes, l.Whole = m.Model, len(m.Objects), m.Bytes(), true
		return l, nil
	}
	if !isNotWhole(err) {
		return l, err
	}
	state, err := s.conn.State(ctx, s.stream())
	l.Bytes = int64(state.Bytes)
	return l, err
}

// Remove deletes the model.
func (s *Store) Remove(ctx context.Context) error {
	err := s.conn.DeleteObjects(ctx, s.bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("the object store has no model %s", s.model)
	}
	return err
}
