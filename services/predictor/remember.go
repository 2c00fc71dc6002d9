package predictor

import "github.com/switchyard/switchyard/pkg/policy/expertmap"

// remember adds the maps of rows that have passed all gates.
func (m *mapper) remember(passed []*query) {
	batch, tenants := map[string][]expertmap.Map{}, []string(nil)
	for _, q := range passed {
		if !q.whole {
			continue
		}
		if batch[q.tenant] == nil {
			tenants = append(tenants, q.tenant)
		}
		batch[q.tenant] = append(batch[q.tenant], expertmap.Map{Embedding: q.embedding, Probabilities: q.probs})
	}
	for _, tenant := range tenants {
		if err := m.store.AddBatch(tenant, batch[tenant]); err != nil {
			m.refused.Error(m.d.Logger, "an expert map is not kept", err)
		}
	}
	_, counts := m.store.Owners()
	kept := 0
	for _, n := range counts {
		kept += n
	}
	m.metrics.Kept(kept, m.store.MemoryBytes())
}
