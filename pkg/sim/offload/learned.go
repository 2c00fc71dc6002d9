package offload

import (
	"math"

	"github.com/switchyard/switchyard/pkg/sim/routing"
)

// calibrated predicts how probable it is that a row uses an expert, by a logistic regression
// of all that is known: what the map that was found says, what the layer's gate makes of the
// state that an earlier gate saw, what the sequence's row before did, and how often the expert
// is used at all. Its weights are learned while rows are served, for each distance apart, so
// that what says nothing counts for nothing: then all experts have about their rates.
type calibrated struct {
	*Maps
	distance int
	gates    bool // uses gates that are computed for later layers
	step     int
	heads    map[head]*weights
	rate     []float64 // (layers, experts): of rows
	rows     float64
	pending  [][]guess   // by layer: what was said of it in this step
	next     [][]float32 // by layer: the chances in the next step
	tokens   *tokenMeans
	trained  [][][]float32 // by distance, less 1
}

// The inputs of the regression; logarithms of chances, 0 where one is not known.
const (
	inBias = iota
	inMap
	inGate
	inBefore
	inUsed
	inRate
	inSemantic
	inLearned
	inToken
	inputs
)

func newCalibrated(m *Maps, before []*routing.Rows, distance int, gates bool) *calibrated {
	c := &calibrated{Maps: m, distance: distance, gates: gates, heads: map[head]*weights{}, rate: make([]float64, m.w.Layers*m.w.Experts)}
	c.tokens = newTokenMeans(m.w.Layers * m.w.Experts)
	for _, t := range before {
		for r := range t.N {
			c.tokens.add(t.Tokens[r], t.Map(r))
		}
	}
	c.pending, c.next = make([][]guess, m.w.Layers), make([][]float32, m.w.Layers)
	even := float64(m.w.TopK) / float64(m.w.Experts)
	for i := range c.rate {
		c.rate[i] = even * firstRows
	}
	c.rows = firstRows
	return c
}

const (
	// firstRows are what knowing nothing of rates weighs.
	firstRows = 16
	// learning is the rate of the regression's steps (Adagrad's).
	learning = 0.1
	// leastChance is what logarithms are taken of at least.
	leastChance = 1e-3
	// every how many rows of a prompt one is looked at: they are alike, and many.
	everyRow = 4
)

func (c *calibrated) Begin(step int) {
	c.step = step
	for l := range c.pending {
		c.pending[l] = c.pending[l][:0]
	}
}

// sampled are the rows of the step that are looked at.
func (c *calibrated) sampled() (rows []Row, each float64) {
	s := c.w.Steps[c.step]
	if !s.Prefill {
		return s.Rows, 1
	}
	for i := 0; i < len(s.Rows); i += everyRow {
		rows = append(rows, s.Rows[i])
	}
	return rows, float64(len(s.Rows)) / float64(len(rows))
}

func (c *calibrated) Look(layer int, give func(Look)) {
	rows, each := c.sampled()
	if layer >= 0 {
		c.learn(layer)
		c.after(layer, rows, each, give)
	}
	for target := layer + 1; target <= min(layer+c.distance, c.w.Layers-1); target++ {
		look := Look{Target: target}
		look.Told = c.chances(rows, each, layer, target, func(g guess) { c.pending[target] = append(c.pending[target], g) })
		c.fetch(&look)
		give(look)
	}
}

// after says what the next step will ask of a layer that is over, and when its first layers are
// no farther than the distance, what is to be fetched for them.
func (c *calibrated) after(layer int, rows []Row, each float64, give func(Look)) {
	if c.w.Steps[c.step].Prefill { // each prompt's last row says what comes
		rows, each = c.w.last(c.step), 1
	}
	c.next[layer] = c.chances(rows, each, layer, layer, nil)
	give(Look{Target: layer, Told: c.next[layer], Next: true})
	if target := layer + c.distance - c.w.Layers; target >= 0 {
		look := Look{Target: target, Told: c.next[target], Next: true}
		c.fetch(&look)
		give(look)
	}
}

// last are the last rows of a step's texts.
func (w *Workload) last(step int) (rows []Row) {
	all := w.Steps[step].Rows
	for i, r := range all {
		if i+1 == len(all) || all[i+1].Text != r.Text {
			rows = append(rows, r)
		}
	}
	return rows
}

// fetch names what is worth fetching.
func (c *calibrated) fetch(look *Look) {
	for e, p := range look.Told {
		if float64(p) >= c.least() {
			look.Fetch = append(look.Fetch, Hint{e, p})
		}
	}
}

// least is the chance from which on an expert is worth a prefetch: that of any expert, and
// some less, but no small one. What goes for it has to be used later all the same
// (residency.NextUse).
func (c *calibrated) least() float64 {
	return max(leastFetched, 0.75*float64(c.w.TopK)/float64(c.w.Experts))
}

// leastFetched is assumed: of ten experts that are fetched one is used.
const leastFetched = 0.1

// guess is what is said of a row, by what is known at a layer.
func (c *calibrated) guess(r Row, layer, target int) guess {
	n, prefill := c.w.Experts, c.w.Steps[c.step].Prefill && target > layer
	h := head{prefill: prefill, ahead: target - layer, blind: layer < 0}
	g := guess{row: r, of: c.head(h), in: make([]float64, n*inputs), said: make([]float64, n)}
	in := func(e, i int) *float64 { return &g.in[e*inputs+i] }
	for e := range n {
		*in(e, inBias) = 1
		*in(e, inRate) = math.Log(c.rate[target*n+e] / c.rows)
	}
	c.mapInputs(r.Text, layer, target, in)
	if c.gates && layer >= 0 && target > layer {
		row := make([]float32, n)
		c.w.Gates.Logits(target, r.State(r.At, layer), row)
		routing.Softmax(row)
		logs(row, inGate, in)
		if d := target - layer; d <= len(c.trained) {
			guessBy(c.trained[d-1][layer], r.State(r.At, layer), row)
			logs(row, inLearned, in)
		}
	}
	if target > layer {
		row := make([]float32, n)
		c.tokens.fill(r.Tokens[r.At], target*n, row)
		logs(row, inToken, in)
	}
	if at := c.rowBefore(r, layer, target); at >= 0 {
		logs(r.Of(at, target), inBefore, in)
		for _, e := range r.Chosen(at, target) {
			*in(int(e), inUsed) = 1
		}
	}
	for e := range g.said {
		g.said[e] = g.of.say(g.in[e*inputs : (e+1)*inputs])
	}
	return g
}

// rowBefore is the row of the sequence of which a layer is known: this one for the next step.
func (c *calibrated) rowBefore(r Row, layer, target int) int {
	switch {
	case target == layer:
		return r.At
	case c.w.Steps[c.step].Prefill:
		return -1
	}
	return r.At - 1
}

// learn takes in what rows' gates have chosen in a layer.
func (c *calibrated) learn(layer int) {
	for _, g := range c.pending[layer] {
		c.teach(g, g.row.Chosen(g.row.At, layer))
	}
	if s := c.w.Steps[c.step]; !s.Prefill {
		for _, r := range s.Rows { // what the row before said of this one
			if r.At > r.Prompt {
				g := c.before(r, layer)
				c.teach(g, r.Chosen(r.At, layer))
			}
		}
	}
	rows := c.w.Steps[c.step].Rows
	for e, n := range c.w.Loads(c.step, layer) {
		c.rate[layer*c.w.Experts+e] += float64(n)
	}
	if layer == c.w.Layers-1 {
		c.rows += float64(len(rows))
		for _, r := range rows {
			c.tokens.add(r.Tokens[r.At], r.Map(r.At))
		}
	}
}

// before is what the row before a row's would have said of it.
func (c *calibrated) before(r Row, layer int) guess {
	r.At--
	return c.guess(r, layer, layer)
}
