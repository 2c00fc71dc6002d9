package model

import "iter"

// Stored yields each tensor that is stored for the model, once, with one of the
// refs that it has a part in. Its Data may be missing.
func (m *Model) Stored() iter.Seq2[Ref, Tensor] {
	return func(yield func(Ref, Tensor) bool) {
		seen := map[string]bool{}
		for ref := range m.Spec.Refs() {
			for _, name := range m.stored(ref).names() {
				t, ok := m.source.stat(name)
				if !ok || seen[name] {
					continue
				}
				seen[name] = true
				if !yield(ref, t) {
					return
				}
			}
		}
	}
}

// Need is a tensor of the spec, and how many there are of its shape: one, or one
// for each expert of a layer, of which it is the first one's.
type Need struct {
	Ref   Ref
	Shape []int
	Count int
}

// Needs yields what Refs does, with the experts of a layer as one.
func (s *Spec) Needs() iter.Seq[Need] {
	return func(yield func(Need) bool) {
		all := func(needs []need, layer, count int) bool {
			for _, n := range needs {
				if !yield(Need{Ref{Role: n.Role, Layer: layer}, n.Shape, count}) {
					return false
				}
			}
			return true
		}
		more := all(s.outerNeeds(), 0, 1)
		for l := 0; more && l < s.Layers; l++ {
			more = all(s.layerNeeds(l), l, 1) && (!s.Layer[l].MoE || all(s.expertNeeds(l), l, s.Experts))
		}
	}
}
