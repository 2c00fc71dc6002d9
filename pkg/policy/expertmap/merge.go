package expertmap

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Fits refuses maps of another model or shape: ErrForeign.
func (s *Store) Fits(model string, shape Shape) error {
	switch {
	case s.Model != model:
		return fmt.Errorf("%w: they are of the model %.12s, and this is %.12s; build a store of this model's maps", ErrForeign, s.Model, model)
	case s.Shape != shape:
		return fmt.Errorf("%w: they have %s, and this model's have %s; build a store of this model's maps", ErrForeign, s.Shape, shape)
	}
	return nil
}

// String says what maps of the shape are like.
func (s Shape) String() string {
	return fmt.Sprintf("%d layers of %d experts, of which %d are chosen, and embeddings of %d", s.Layers, s.Experts, s.TopK, s.Embedding)
}

// Merge adds all maps of another store of the same model, the oldest first. What of them
// this store has no room for goes by its own rule. An empty store with the other's settings
// becomes what the other was, digest and all, and the other is empty then: so replicas that
// begin with a snapshot go on as the one that wrote it.
func (s *Store) Merge(from *Store) error {
	if err := from.Fits(s.Model, s.Shape); err != nil {
		return err
	}
	if len(s.parts) == 0 && s.Settings == from.Settings {
		s.parts, s.slots, from.parts, from.slots = from.parts, from.slots, s.parts, nil
		return nil
	}
	for tenant, m := range from.All() {
		if err := s.addBatch(tenant, []Map{m}, roughly); err != nil {
			return err
		}
	}
	return nil
}

// All yields each tenant's maps as they are held, the oldest of a tenant first.
func (s *Store) All() func(yield func(tenant string, m Map) bool) {
	return func(yield func(string, Map) bool) {
		for _, scope := range slices.Sorted(maps.Keys(s.parts)) {
			p := s.parts[scope]
			order := make([]int, p.count)
			for i := range order {
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.added[a], p.added[b]) })
			for _, slot := range order {
				if !yield(p.owners[p.owner[slot]].name, p.mapIn(slot)) {
					return
				}
			}
		}
	}
}
