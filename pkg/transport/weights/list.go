package weights

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	// Unknown is why nothing else is known of the model; empty if it was looked at.
	Unknown string `json:"unknown,omitempty"`
}

// State reports whether the model can be served.
func (l Listed) State() string {
	switch {
	case l.Whole:
		return "whole"
	case l.Unknown != "":
		return "unknown: " + l.Unknown
	}
	return "not whole; push it again, or remove it"
}

// List lists the models of a prefix by name. One that cannot be looked at, for want
// of a permission or because the server is slow, does not hide the others.
func List(ctx context.Context, conn *bus.Conn, prefix string) (list []Listed, err error) {
	begin := "OBJ_" + prefix + "_" + bucketKind + "_"
	names := conn.JetStream().StreamNames(ctx)
	for name := range names.Name() {
		model, ours := strings.CutPrefix(name, begin)
		if !ours || CheckName(model) != nil {
			continue
		}
		if l, there := New(conn, prefix, model).listed(ctx); there {
			list = append(list, l)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("looking at model %s of the object store: %w", model, ctx.Err())
		}
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	if err := names.Err(); err != nil {
		return list, fmt.Errorf("listing the models of the object store: %w", err)
	}
	return list, nil
}

// listed is look, whose error it takes for an answer. A model that was removed, or was
// never there, has left its place.
func (s *Store) listed(ctx context.Context) (l Listed, there bool) {
	l, err := s.look(ctx)
	if err != nil {
		l.Unknown = err.Error()
	}
	return l, !isNoStream(err) && (l.Whole || l.Bytes > 0 || l.Unknown != "")
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

// Remove deletes all that there is of the model. Its place stays for the next one.
func (s *Store) Remove(ctx context.Context) error {
	state, err := s.conn.State(ctx, s.stream())
	if isNoStream(err) || err == nil && state.Messages == 0 {
		return fmt.Errorf("the object store has no model %s", s.model)
	}
	return s.conn.Empty(ctx, s.stream())
}
