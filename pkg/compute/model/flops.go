package model

import "slices"

// ScoreFLOPs returns what attention's scores and sums take for one token that sees
// so many positions.
func (s *Spec) ScoreFLOPs(context int) float64 {
	n := 0.0
	for i := range s.Layer {
		n += s.Layer[i].Mixer.scoreFLOPs(context)
	}
	return n
}

func (m *MixerSpec) scoreFLOPs(context int) float64 {
	seen := context
	if most := m.Most(); most > 0 {
		seen = min(seen, most)
	}
	width := m.HeadDim + m.ValueDim
	if m.Kind == MLA { // on the latent
		width = 2*m.Latent.KVRank + m.Latent.RopeDim
	}
	return 2 * float64(m.Heads) * float64(width) * float64(seen)
}

// PromptFLOPs returns what a prompt of so many rows takes in layers and head, whose last row alone has logits: behind its keys and
// values, no other row is computed in the last layer.
func (s *Spec) PromptFLOPs(rows int) (sum float64) {
	all := float64(rows)
	for l := range s.Layer {
		active := float64(elements(s.layerNeeds(l)) + int64(s.TopK)*s.expertParameters(l))
		scores := s.Layer[l].Mixer.scoreFLOPs
		if l < len(s.Layer)-1 {
			sum += all * (2*active + scores(rows/2))
			continue
		}
		projected := float64(s.Layer[l].Mixer.projected(s.Hidden))
		sum += all*2*projected + 2*(active-projected) + scores(rows)
	}
	return sum + 2*float64(elements([]need{s.headNeed()}))
}

// projected counts the weights that make keys and values, and the queries that are multiplied with them.
func (m *MixerSpec) projected(d int) int64 {
	return elements(slices.DeleteFunc(m.needs(d), func(n need) bool { return !slices.Contains([]Role{Q, K, V, QDown, KVDown}, n.Role) }))
}
