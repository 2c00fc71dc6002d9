package predictor

import (
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// chances are what a mapper learns of one tenant's generated rows: how probable experts of the
// layers up to a distance ahead are (expertmap.Learner). Rows of prompts go by their maps alone.
type chances struct {
	*expertmap.Learner
	tokens *expertmap.Tokens
	last   map[string]*pastRow // by sequence: its newest row
}

// pastRow is a row that has passed all gates.
type pastRow struct {
	probs  []float32 // (L, J)
	chosen []uint16  // (L, k)
}

// mostLearned bounds the tenants of which chances are learned; others' rows go by maps alone.
const mostLearned = expertmap.DefaultTenants

// chancesOf returns a tenant's, for a row that they are learned for; nil: it goes by maps alone.
func (m *mapper) chancesOf(q *query) *chances {
	if m.config.Maps.Chances != Learned || q.sequence == "" {
		return nil
	}
	c := m.chances[q.tenant]
	if c == nil && len(m.chances) < mostLearned {
		s := &m.store.Settings
		c = &chances{expertmap.NewLearner(s.Layers, s.Experts, s.TopK), expertmap.NewTokens(s.Layers * s.Experts), map[string]*pastRow{}}
		m.chances[q.tenant] = c
	}
	return c
}

// guess returns what a row's experts of a layer are said to be, by what is known of it before it
// passes the gate of a place, which is -1 before the first; x is what that gate sees.
func (m *mapper) guess(c *chances, q *query, at, target int, match expertmap.Match, found bool, x []float32) (*expertmap.Guess, error) {
	g := c.Guess(expertmap.Head{Ahead: target - at, Blind: at < 0}, target)
	j := m.store.Experts
	if found && m.store.RowInto(m.row, match.Index, target+1) {
		g.Know(expertmap.Found, m.row)
	}
	if at >= 0 {
		if err := m.router.Probabilities(m.layers[target], x, m.row); err != nil {
			return nil, err
		}
		g.Know(expertmap.Gate, m.row)
		if m.trained.Fill(m.layers[at], target-at, m.layers[target], x, m.row) {
			g.Know(expertmap.Learned, m.row)
		}
		if q.semantic != nil {
			g.Know(expertmap.Semantic, q.semantic[target*j:(target+1)*j])
		}
	}
	c.tokens.Fill(q.token, target*j, m.row)
	g.Know(expertmap.Token, m.row)
	if last := c.last[q.sequence]; last != nil {
		k := m.store.TopK
		g.Past(last.probs[target*j:(target+1)*j], last.chosen[target*k:(target+1)*k])
	}
	return g, nil
}

// look foretells the layers up to the distance ahead of the gate of a place.
func (m *mapper) look(t *telling, c *chances, q *query, at int, match expertmap.Match, found bool, x []float32) error {
	for target := at + 1; target <= min(at+m.config.Distance, m.store.Layers-1); target++ {
		g, err := m.guess(c, q, at, target, match, found, x)
		if err != nil {
			return err
		}
		layer := m.layers[target]
		for e, p := range g.Said() {
			t.know(layer, e, float32(p))
			if p >= c.Least() {
				t.want(layer, e, float32(p))
			}
		}
		if q.said == nil {
			q.said = make([][]*expertmap.Guess, m.store.Layers)
		}
		q.said[target] = append(q.said[target], g)
	}
	return nil
}

// after returns what a row that has passed the gate of a place says of the sequence's next row there.
func (m *mapper) after(c *chances, at int, row *pastRow) (*expertmap.Guess, []float64) {
	j, k := m.store.Experts, m.store.TopK
	g := c.Guess(expertmap.Head{}, at)
	g.Past(row.probs[at*j:(at+1)*j], row.chosen[at*k:(at+1)*k])
	return g, g.Said()
}

// tellNext says what the sequence's next row will ask of the layer at a place, and has loaded what is worth it of
// the place that is by then the distance ahead.
func (m *mapper) tellNext(t *telling, c *chances, q *query, at int) {
	_, next := m.after(c, at, &pastRow{q.probs, q.chosen})
	q.nexts = append(q.nexts, next)
	for e, p := range next {
		t.knowNext(m.layers[at], e, float32(p))
	}
	target := at + m.config.Distance - m.store.Layers
	if target < 0 || !q.whole { // places that were missed have said nothing
		return
	}
	for e, p := range q.nexts[target] {
		if p >= c.Least() {
			t.of(t.next, m.layers[target]).want(e, float32(p))
		} else {
			t.knowNext(m.layers[target], e, float32(p))
		}
	}
}

// chose tells what the gate of a place has chosen for all rows of a step, if it is known of each.
func (m *mapper) chose(t *telling, at int, passed []*query) {
	k, all := m.store.TopK, make([]bool, m.store.Experts)
	for _, q := range passed {
		if q.chosen == nil {
			return
		}
		for _, e := range q.chosen[at*k : (at+1)*k] {
			all[e] = true
		}
	}
	t.chosen = all
}

// learn takes in what the gate of a place has chosen for a row, of which x is what it sees.
func (m *mapper) learn(t *telling, c *chances, q *query, at int, x []float32) error {
	var routes forward.Routes
	if err := m.router.Route(m.layers[at], x, &routes); err != nil {
		return err
	}
	k := m.store.TopK
	if q.chosen == nil {
		q.chosen = make([]uint16, m.store.Layers*k)
	}
	chosen := q.chosen[at*k : (at+1)*k]
	for i, e := range routes.Expert[:min(k, len(routes.Expert))] {
		chosen[i] = uint16(max(0, e))
		c.Count(at, int(chosen[i]), 1)
	}
	if q.said != nil {
		for _, g := range q.said[at] {
			c.Teach(g, chosen)
		}
		q.said[at] = nil
	}
	if last := c.last[q.sequence]; last != nil {
		g, _ := m.after(c, at, last)
		c.Teach(g, chosen)
	}
	m.tellNext(t, c, q, at)
	if at < m.store.Layers-1 || !q.whole {
		return nil
	}
	c.Rows(1)
	c.tokens.Add(q.token, q.probs)
	if len(c.last) >= mostSequences {
		clear(c.last) // they are of sequences that have ended, most of them
	}
	c.last[q.sequence] = &pastRow{q.probs, q.chosen}
	return nil
}
