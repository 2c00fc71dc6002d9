package offload

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/policy/predict"
	"github.com/switchyard/switchyard/pkg/sim/routing"
)

// tenant owns all maps of a simulation.
const tenant = "simulated"

// Maps is a store of expert maps that texts before have left, and what was found in it for the
// rows of a workload. What is found does not depend on the distance.
type Maps struct {
	w     *Workload
	store *expertmap.Store
	steps [][]matched // of each step's queries
	// Semantic and Trajectory are the means of scores, of decode rows.
	Semantic, Trajectory float64
}

// matched is what was found for one query: a row, or the mean of a prompt's rows.
type matched struct {
	text     int
	semantic expertmap.Match
	layers   []expertmap.Match
}

// NewMaps fills a store with the maps of texts, a map for each generated row and one for each
// prompt, the mean of its rows; and searches it for all rows of a workload. Distance counts
// where a store that is full says which map goes.
func NewMaps(w *Workload, texts []*routing.Rows, capacity, distance int) (*Maps, error) {
	store, err := expertmap.New(expertmap.Settings{
		Shape:    expertmap.Shape{Layers: w.Layers, Experts: w.Experts, TopK: w.TopK, Embedding: w.Gates.Width},
		Capacity: capacity, Distance: distance,
	})
	if err != nil {
		return nil, err
	}
	m := &Maps{w: w, store: store, steps: make([][]matched, len(w.Steps))}
	for i, t := range texts {
		if err := m.keep(t); err != nil {
			return nil, fmt.Errorf("the maps of text %d: %w", i, err)
		}
	}
	m.search()
	return m, nil
}

// keep adds a text's maps.
func (m *Maps) keep(t *routing.Rows) error {
	if t.Prompt > 0 {
		q := meanOf(t, 0, t.Prompt)
		if err := m.store.Add(tenant, q.embedding, q.all); err != nil {
			return err
		}
	}
	for r := t.Prompt; r < t.N; r++ {
		if err := m.store.Add(tenant, t.Embedding(r), t.Map(r)); err != nil {
			return err
		}
	}
	return nil
}

// query is what is searched for.
type query struct {
	text           int
	embedding, all []float32 // all are probabilities (layers, experts)
}

// meanOf is the mean of some rows.
func meanOf(t *routing.Rows, from, to int) query {
	q := query{embedding: make([]float32, t.Width), all: make([]float32, t.Layers*t.Experts)}
	part := 1 / float32(to-from)
	for r := from; r < to; r++ {
		for i, v := range t.Embedding(r) {
			q.embedding[i] += v * part
		}
		for i, v := range t.Map(r) {
			q.all[i] += v * part
		}
	}
	return q
}

// queries are those of a step: each row, or of a prompt the mean.
func (w *Workload) queries(step int) (all []query) {
	s := w.Steps[step]
	for i, r := range s.Rows {
		switch {
		case !s.Prefill:
			all = append(all, query{r.Text, r.Embedding(r.At), r.Map(r.At)})
		case i == 0 || s.Rows[i-1].Text != r.Text:
			q := meanOf(r.Rows, 0, r.Prompt)
			q.text = r.Text
			all = append(all, q)
		}
	}
	return all
}

// search finds what is most similar to each query, by its embedding and, layer by layer, by
// what its gates have said up to there.
func (m *Maps) search() {
	search := m.store.Begin(tenant)
	var semantic, trajectory []float64
	for s, step := range m.w.Steps {
		for _, q := range m.w.queries(s) {
			search.Reset()
			one := matched{text: q.text, layers: make([]expertmap.Match, m.w.Layers)}
			one.semantic = first(search.Embedding(q.embedding))
			for l := range one.layers {
				one.layers[l] = first(search.Layer(l+1, q.all[l*m.w.Experts:(l+1)*m.w.Experts]))
				if !step.Prefill {
					trajectory = append(trajectory, float64(one.layers[l].Score))
				}
			}
			if !step.Prefill {
				semantic = append(semantic, float64(one.semantic.Score))
			}
			m.steps[s] = append(m.steps[s], one)
		}
	}
	m.Semantic, m.Trajectory = mean(semantic), mean(trajectory)
}

// first is a match, or one that no map has.
func first(m expertmap.Match, ok bool) expertmap.Match {
	if !ok {
		m.Index = -1
	}
	return m
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// mapped predicts by what was found (fMoE): of the first layers by the embedding, of others by
// the trajectory up to a distance before.
type mapped struct {
	*Maps
	step     int
	distance int
	// bySemantic is T+S: without it nothing is known of the first layers. byDelta is δ: more
	// experts are fetched the less similar a map is; without it as many as a row uses.
	bySemantic, byDelta bool
}

func (m *mapped) Begin(step int) { m.step = step }

func (m *mapped) Look(layer int, give func(Look)) {
	if layer < 0 && !m.bySemantic {
		return
	}
	m.w.targets(layer, m.distance, func(target int) {
		u := newUnion(m.w.Experts)
		for _, q := range m.steps[m.step] {
			match := q.semantic
			if layer >= 0 {
				match = q.layers[layer]
			}
			m.add(u, match, target)
		}
		give(u.look(target))
	})
}

// add takes in what a map says of a layer.
func (m *mapped) add(u *union, match expertmap.Match, target int) {
	row := make([]float32, m.w.Experts)
	if match.Index < 0 || !m.store.RowInto(row, match.Index, target+1) {
		return
	}
	if !m.byDelta {
		match.Score = 1
	}
	var fetch []Hint
	for _, h := range expertmap.Select(row, match.Score, m.w.TopK, nil) {
		fetch = append(fetch, Hint{h.Expert, h.Probability})
	}
	u.add(row, fetch)
}

// Pearson is the correlation of a trajectory's score and of how many of the experts that a row
// used, a distance ahead, are the most probable ones of the map that was found: over decode
// rows and layers (figure 8).
func (m *Maps) Pearson(distance int) float64 {
	var scores, right []float64
	row, ids := make([]float32, m.w.Experts), make([]uint16, m.w.TopK)
	for s, step := range m.w.Steps {
		for i, r := range step.Rows {
			for l := 0; l+distance < m.w.Layers && !step.Prefill; l++ {
				match := m.steps[s][i].layers[l]
				if match.Index < 0 || !m.store.RowInto(row, match.Index, l+distance+1) {
					continue
				}
				routing.TopK(row, ids)
				right = append(right, float64(both(ids, r.Chosen(r.At, l+distance)))/float64(m.w.TopK))
				scores = append(scores, float64(match.Score))
			}
		}
	}
	return predict.Pearson(scores, right)
}

// both is how many of some experts are among others.
func both(experts, others []uint16) (n int) {
	for _, e := range others {
		if slices.Contains(experts, e) {
			n++
		}
	}
	return n
}
