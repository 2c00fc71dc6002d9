package offload

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/policy/predict"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// tenant owns all maps of a simulation.
const tenant = "simulated"

// Maps is a store of expert maps that texts before have left, and what was found in it for the
// rows of a workload. What is found does not depend on the distance.
type Maps struct {
	w     *Workload
	kind  Prompts
	store *expertmap.Store
	kept  map[int][]float32 // of the store's maps, those that were found, as they were then
	steps [][]matched       // of each step's queries
	// Semantic and Trajectory are the means of scores, of decode rows.
	Semantic, Trajectory float64
}

// matched is what was found for one query: a row, or the mean of a prompt's rows.
type matched struct {
	text, rows int
	semantic   match
	layers     []match
}

// match is a map (layers, experts) with its score; nil where there was none.
type match struct {
	score float32
	probs []float32
}

func (m match) of(layer, experts int) []float32 {
	return m.probs[layer*experts : (layer+1)*experts]
}

// NewMaps fills a store with the maps of texts, a map for each generated row and those that prompts leave; and searches it for all rows of a workload. Distance counts
// where a store that is full says which map goes. Of a store that grows, the maps of each step of
// the workload enter it behind the step.
func NewMaps(w *Workload, texts []*routing.Rows, kind Prompts, capacity, distance int, grows bool) (*Maps, error) {
	store, err := NewStore(Traffic{Model: w.Model, Gates: w.Gates, Before: texts, Prompts: kind}, "", tenant, capacity, distance)
	if err != nil {
		return nil, err
	}
	m := &Maps{w: w, kind: kind, store: store, steps: make([][]matched, len(w.Steps)), kept: map[int][]float32{}}
	return m, m.search(grows)
}

// NewStore is a store of the maps of a traffic's texts before, all of one tenant, for the model
// with a hash.
func NewStore(t Traffic, model, tenant string, capacity, distance int) (*expertmap.Store, error) {
	store, err := expertmap.New(expertmap.Settings{
		Shape: expertmap.Shape{Layers: t.Layers, Experts: t.Experts, TopK: t.TopK, Embedding: t.Gates.Width},
		Model: model, Capacity: capacity, Distance: distance,
	})
	if err != nil {
		return nil, err
	}
	for i, text := range t.Before {
		if err := keep(store, tenant, text, t.Prompts); err != nil {
			return nil, fmt.Errorf("the maps of text %d: %w", i, err)
		}
	}
	return store, nil
}

// keep adds a text's maps.
func keep(store *expertmap.Store, tenant string, t *routing.Rows, kind Prompts) error {
	for _, q := range kind.of(t) {
		if err := store.Add(tenant, q.embedding, q.all); err != nil {
			return err
		}
	}
	for r := t.Prompt; r < t.N; r++ {
		if err := store.Add(tenant, t.Embedding(r), t.Map(r)); err != nil {
			return err
		}
	}
	return nil
}

// Prompts is what the rows of prompts leave and look for, as predictors have it (--prefill-maps).
type Prompts string

// The kinds; none is MeanMap.
const (
	MeanMap  Prompts = "mean" // one map, the mean of theirs
	LastMap  Prompts = "last" // that of the last row
	EveryMap Prompts = "rows" // one each
)

// of are the queries of a text's prompt.
func (p Prompts) of(t *routing.Rows) (all []query) {
	switch {
	case t.Prompt == 0:
	case p == LastMap:
		all = append(all, meanOf(t, t.Prompt-1, t.Prompt))
	case p == EveryMap:
		for r := range t.Prompt {
			all = append(all, meanOf(t, r, r+1))
		}
	default:
		all = append(all, meanOf(t, 0, t.Prompt))
	}
	return all
}

// query is what is searched for.
type query struct {
	text, rows     int
	embedding, all []float32 // all are probabilities (layers, experts)
}

// meanOf is the mean of some rows.
func meanOf(t *routing.Rows, from, to int) query {
	q := query{rows: to - from, embedding: make([]float32, t.Width), all: make([]float32, t.Layers*t.Experts)}
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

// queries are those of a step: each row, or what prompts have.
func (m *Maps) queries(step int) (all []query) {
	s := m.w.Steps[step]
	for i, r := range s.Rows {
		switch {
		case !s.Prefill:
			all = append(all, query{r.Text, 1, r.Embedding(r.At), r.Map(r.At)})
		case i == 0 || s.Rows[i-1].Text != r.Text:
			for _, q := range m.kind.of(r.Rows) {
				q.text = r.Text
				all = append(all, q)
			}
		}
	}
	return all
}

// search finds what is most similar to each query, by its embedding and, layer by layer, by
// what its gates have said up to there.
func (m *Maps) search(grows bool) error {
	search := m.store.Begin(tenant)
	var semantic, trajectory []float64
	for s, step := range m.w.Steps {
		all := m.queries(s)
		for _, q := range all {
			search.Reset()
			one := matched{text: q.text, rows: q.rows, layers: make([]match, m.w.Layers)}
			one.semantic = m.found(search.Embedding(q.embedding))
			for l := range one.layers {
				one.layers[l] = m.found(search.Layer(l+1, q.all[l*m.w.Experts:(l+1)*m.w.Experts]))
				if !step.Prefill {
					trajectory = append(trajectory, float64(one.layers[l].score))
				}
			}
			if !step.Prefill {
				semantic = append(semantic, float64(one.semantic.score))
			}
			m.steps[s] = append(m.steps[s], one)
		}
		if grows {
			if err := m.remember(all); err != nil {
				return fmt.Errorf("the maps of step %d: %w", s, err)
			}
		}
	}
	m.Semantic, m.Trajectory = mean(semantic), mean(trajectory)
	return nil
}

// remember adds the maps of a step that is over.
func (m *Maps) remember(all []query) error {
	batch := make([]expertmap.Map, len(all))
	for i, q := range all {
		batch[i] = expertmap.Map{Embedding: q.embedding, Probabilities: q.all}
	}
	return m.store.AddBatch(tenant, batch)
}

// found keeps a map that was found, which the store may replace later.
func (m *Maps) found(of expertmap.Match, ok bool) match {
	if !ok {
		return match{}
	}
	probs, n := make([]float32, m.w.Layers*m.w.Experts), m.w.Experts
	for l := range m.w.Layers {
		m.store.RowInto(probs[l*n:(l+1)*n], of.Index, l+1)
	}
	if old := m.kept[of.Index]; slices.Equal(old, probs) {
		probs = old
	}
	m.kept[of.Index] = probs
	return match{of.Score, probs}
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
			if match.probs != nil {
				m.add(u, q.rows, match.score, match.of(target, m.w.Experts))
			}
		}
		give(u.look(target))
	})
}

// add takes in what a map says of a layer, for so many rows.
func (m *mapped) add(u *union, rows int, score float32, row []float32) {
	if !m.byDelta {
		score = 1
	}
	var fetch []Hint
	for _, h := range expertmap.Select(row, score, expertmap.Least(row, rows, m.w.TopK), nil) {
		fetch = append(fetch, Hint{h.Expert, expertmap.Several(rows, m.w.TopK, h.Probability)})
	}
	told := make([]float32, len(row))
	for e, p := range row {
		told[e] = expertmap.Several(rows, m.w.TopK, p)
	}
	u.add(told, fetch)
}

// Pearson is the correlation of a trajectory's score and of how many of the experts that a row
// used, a distance ahead, are the most probable ones of the map that was found: over decode
// rows and layers (figure 8).
func (m *Maps) Pearson(distance int) float64 {
	return m.correlate(func(found matched, give func(match match, target int)) {
		for l := range max(0, m.w.Layers-distance) {
			give(found.layers[l], l+distance)
		}
	})
}

// PearsonSemantic is the same of embeddings' scores, and of the first layers, up to the distance.
func (m *Maps) PearsonSemantic(distance int) float64 {
	return m.correlate(func(found matched, give func(match match, target int)) {
		for l := range min(distance, m.w.Layers) {
			give(found.semantic, l)
		}
	})
}

func (m *Maps) correlate(of func(found matched, give func(match match, target int))) float64 {
	var scores, right []float64
	ids := make([]uint16, m.w.TopK)
	for s, step := range m.w.Steps {
		if step.Prefill {
			continue
		}
		for i, r := range step.Rows {
			of(m.steps[s][i], func(match match, target int) {
				if match.probs == nil {
					return
				}
				routing.TopK(match.of(target, m.w.Experts), ids)
				right = append(right, float64(both(ids, r.Chosen(r.At, target)))/float64(m.w.TopK))
				scores = append(scores, float64(match.score))
			})
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
