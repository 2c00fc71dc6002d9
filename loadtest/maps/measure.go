package maps

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// Report is what a store foretold of sequences that it was not built of.
type Report struct {
	Model   string           `json:"model"`
	Train   int              `json:"train_sequences"`
	Test    int              `json:"test_sequences"`
	Maps    int              `json:"maps"`
	Bytes   int64            `json:"bytes"`
	Counts  expertmap.Counts `json:"counts"`
	Digest  string           `json:"digest"`
	Prefill Figures          `json:"prefill"`
	Decode  Figures          `json:"decode"`
}

// Figures are means over steps; recall and hinted are means over steps and layers.
type Figures struct {
	Steps int `json:"steps"`
	// Semantic and Trajectory are the scores of what was found.
	Semantic   float64 `json:"semantic_score"`
	Trajectory float64 `json:"trajectory_score"`
	// Recall is the share of the experts that a layer needs which were foretold; that of
	// the layers by embeddings, and by trajectories.
	Recall           float64 `json:"recall"`
	RecallSemantic   float64 `json:"recall_semantic"`
	RecallTrajectory float64 `json:"recall_trajectory"`
	// Repeated is the share of layers that were foretold by a map with the row's very
	// embedding, for which no more than k experts are fetched, and RecallRepeated what was
	// foretold right of them.
	Repeated       float64 `json:"repeated"`
	RecallRepeated float64 `json:"recall_repeated"`
	// Hinted is how many experts of a layer were foretold, Precision the share of those that it needs.
	Hinted    float64 `json:"hinted"`
	Precision float64 `json:"precision"`
	// Pearson's coefficients of score and recall.
	PearsonSemantic   float64 `json:"pearson_semantic"`
	PearsonTrajectory float64 `json:"pearson_trajectory"`
	// Search is what all searches of a step take, in microseconds.
	Search float64 `json:"search_us"`
}

// meter measures steps.
type meter struct {
	store  *expertmap.Store
	least  float32  // δ
	phases [2]phase // prefill, decode
	q      map[int]*expertmap.Search
	hints  []expertmap.Hint
	row    []float32
}

// phase is what was measured in one phase: by embeddings, and by trajectories.
type phase struct {
	steps  int
	by     [2]series
	hinted float64
	right  float64 // of those
	layers int
	search time.Duration
}

// series are scores and recalls of layers.
type series struct{ scores, recalls []float64 }

// step foretells each layer of a step as it would be while serving: layers 1 … d by
// embeddings, layer l+d by the layers 1 … l.
func (m *meter) step(tenant string, st *step) {
	s := m.store
	foretold, scores := make([]map[int]bool, s.Layers), make([]float64, s.Layers)
	for l := range foretold {
		foretold[l] = map[int]bool{}
	}
	p := &m.phases[0]
	if st.decode {
		p = &m.phases[1]
	}
	began := time.Now()
	for i, one := range st.maps {
		q := m.search(tenant, i)
		if match, ok := q.Embedding(one.Embedding); ok {
			for l := 1; l <= s.Distance; l++ {
				m.hint(match, l, st.each, foretold[l-1])
				scores[l-1] += float64(match.Score) / float64(len(st.maps))
			}
		}
		for l := 1; l+s.Distance <= s.Layers; l++ {
			if match, ok := q.Layer(l, one.Probabilities[(l-1)*s.Experts:l*s.Experts]); ok {
				m.hint(match, l+s.Distance, st.each, foretold[l+s.Distance-1])
				scores[l+s.Distance-1] += float64(match.Score) / float64(len(st.maps))
			}
		}
	}
	p.search += time.Since(began)
	p.steps++
	for l := range foretold {
		p.layer(l < s.Distance, scores[l], foretold[l], st.needed[l])
	}
}

// search is one for row i, as new.
func (m *meter) search(tenant string, i int) *expertmap.Search {
	if m.q[i] == nil {
		m.q[i] = m.store.Begin(tenant)
	}
	m.q[i].Reset()
	return m.q[i]
}

// hint adds what a match foretells of a layer, for so many rows, as predictors do.
func (m *meter) hint(match expertmap.Match, layer, rows int, foretold map[int]bool) {
	m.store.RowInto(m.row, match.Index, layer)
	m.hints = expertmap.Select(m.row, min(match.Score, 1-m.least), expertmap.Least(m.row, rows, m.store.TopK), m.hints[:0])
	for _, h := range m.hints {
		foretold[h.Expert] = true
	}
}

func (p *phase) layer(semantic bool, score float64, foretold map[int]bool, needed []bool) {
	hits, all := 0, 0
	for e, is := range needed {
		if is {
			all++
			if foretold[e] {
				hits++
			}
		}
	}
	by := &p.by[0]
	if !semantic {
		by = &p.by[1]
	}
	by.scores, by.recalls = append(by.scores, score), append(by.recalls, float64(hits)/float64(all))
	p.hinted += float64(len(foretold))
	p.right += float64(hits)
	p.layers++
}

func (m *meter) report(train, test int) *Report {
	r := &Report{
		Model: m.store.Model, Train: train, Test: test, Bytes: m.store.MemoryBytes(), Counts: m.store.Counts(), Digest: m.store.Digest(),
		Prefill: m.phases[0].figures(), Decode: m.phases[1].figures(),
	}
	_, counts := m.store.Owners()
	for _, n := range counts {
		r.Maps += n
	}
	return r
}

func (p *phase) figures() Figures {
	if p.steps == 0 {
		return Figures{}
	}
	semantic, trajectory := &p.by[0], &p.by[1]
	n, t := float64(len(semantic.recalls)), float64(len(trajectory.recalls))
	f := Figures{
		Steps: p.steps, Semantic: total(semantic.scores) / n, Trajectory: total(trajectory.scores) / t,
		RecallSemantic: total(semantic.recalls) / n, RecallTrajectory: total(trajectory.recalls) / t,
		PearsonSemantic: predict.Pearson(semantic.scores, semantic.recalls), PearsonTrajectory: predict.Pearson(trajectory.scores, trajectory.recalls),
		Hinted: p.hinted / float64(p.layers), Precision: p.right / max(1, p.hinted), Search: p.search.Seconds() * 1e6 / float64(p.steps),
	}
	if same := semantic.certain(); len(same) > 0 {
		f.Repeated, f.RecallRepeated = float64(len(same))/n, total(same)/float64(len(same))
	}
	f.Recall = (total(semantic.recalls) + total(trajectory.recalls)) / (n + t)
	return f
}

// certain are the recalls where the score was 1.
func (s *series) certain() (recalls []float64) {
	for i, score := range s.scores {
		if score == 1 {
			recalls = append(recalls, s.recalls[i])
		}
	}
	return recalls
}

func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d maps of %d sequences, %.1f MB; %d replaced others, %d were not taken\n", r.Maps, r.Train, float64(r.Bytes)/1e6, r.Counts.Replaced, r.Counts.Skipped)
	if r.Test == 0 {
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PHASE\tSTEPS\tRECALL\tBY EMBEDDING\tBY LAYERS\tHINTED\tRIGHT\tSCORES\tPEARSON\tSEARCH")
	for _, phase := range []struct {
		name string
		Figures
	}{{"prefill", r.Prefill}, {"decode", r.Decode}} {
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.2f\t%.3f\t%.3f, %.3f\t%.2f, %.2f\t%.0f µs\n", phase.name, phase.Steps, phase.Recall, phase.RecallSemantic, phase.RecallTrajectory,
			phase.Hinted, phase.Precision, phase.Semantic, phase.Trajectory, phase.PearsonSemantic, phase.PearsonTrajectory, phase.Search)
	}
	if err := w.Flush(); err != nil {
		return err.Error() // strings.Builder takes everything
	}
	return b.String()
}
