package offload

import (
	"math"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// calibrated predicts by chances that are learned while rows are served (expertmap.Learner), of
// the map that was found, of the layer's gate on the state that an earlier gate saw, of a map that
// is trained to it, of the sequence's row before, and of the token.
type calibrated struct {
	*Maps
	*expertmap.Learner
	distance int
	gates    bool // uses gates that are computed for later layers
	answers  bool // rows of prompts go by their maps alone, and teach nothing, as in services/predictor
	step     int
	pending  [][]guess   // by layer: what was said of it in this step
	next     [][]float32 // by layer: the chances in the next step
	tokens   *expertmap.Tokens
	trained  Networks
}

// Networks say what a row asks of a layer by what an earlier gate sees, so many layers before; false where none was
// trained for that.
type Networks interface {
	Fill(layer, ahead, target int, x, row []float32) bool
}

// regressions are Networks that are learned from texts before, by distance, less 1.
type regressions [][][]float32

func (all regressions) Fill(layer, ahead, _ int, x, row []float32) bool {
	if ahead > len(all) {
		return false
	}
	guessBy(all[ahead-1][layer], x, row)
	return true
}

// guess is what was said of a row in a layer.
type guess struct {
	*expertmap.Guess
	row Row
}

func newCalibrated(m *Maps, before []*routing.Rows, distance int, gates bool) *calibrated {
	c := &calibrated{Maps: m, Learner: expertmap.NewLearner(m.w.Layers, m.w.Experts, m.w.TopK), distance: distance, gates: gates}
	c.tokens = expertmap.NewTokens(m.w.Layers * m.w.Experts)
	for _, t := range before {
		for r := range t.N {
			c.tokens.Add(t.Tokens[r], t.Map(r))
		}
	}
	c.pending, c.next = make([][]guess, m.w.Layers), make([][]float32, m.w.Layers)
	return c
}

// every how many rows of a prompt one is looked at: they are alike, and many.
const everyRow = 4

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
	if c.answers && c.w.Steps[c.step].Prefill {
		c.byMaps(layer, give)
		return
	}
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

// byMaps says what maps do of prompts' rows, of all layers up to the distance.
func (c *calibrated) byMaps(layer int, give func(Look)) {
	by := mapped{Maps: c.Maps, step: c.step, distance: c.distance, bySemantic: true, byDelta: true}
	if layer < 0 {
		by.Look(layer, give)
		return
	}
	for d := range c.distance {
		by.distance = d + 1
		by.Look(layer, give)
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
		if float64(p) >= c.Least() {
			look.Fetch = append(look.Fetch, Hint{e, p})
		}
	}
}

// guess is what is said of a row, by what is known at a layer.
func (c *calibrated) guess(r Row, layer, target int) guess {
	prefill := c.w.Steps[c.step].Prefill && target > layer
	g := guess{c.Guess(expertmap.Head{Prefill: prefill, Ahead: target - layer, Blind: layer < 0}, target), r}
	c.knowMaps(g, layer, target)
	row := make([]float32, c.w.Experts)
	if c.gates && layer >= 0 && target > layer {
		c.w.Gates.Logits(target, r.State(r.At, layer), row)
		routing.Softmax(row)
		g.Know(expertmap.Gate, row)
		if c.trained != nil && c.trained.Fill(layer, target-layer, target, r.State(r.At, layer), row) {
			g.Know(expertmap.Learned, row)
		}
	}
	if target > layer {
		c.tokens.Fill(r.Tokens[r.At], target*c.w.Experts, row)
		g.Know(expertmap.Token, row)
	}
	if at := c.rowBefore(r, layer, target); at >= 0 {
		g.Past(r.Of(at, target), r.Chosen(at, target))
	}
	return g
}

// knowMaps takes in what the maps say that were found for the row's query.
func (c *calibrated) knowMaps(g guess, layer, target int) {
	if target == layer {
		return
	}
	for _, found := range c.steps[c.step] {
		match := found.semantic
		if layer >= 0 {
			match = found.layers[layer]
		}
		if found.text != g.row.Text || match.probs == nil {
			continue
		}
		g.Know(expertmap.Found, match.of(target, c.w.Experts))
		if layer >= 0 && found.semantic.probs != nil {
			g.Know(expertmap.Semantic, found.semantic.of(target, c.w.Experts))
		}
		return
	}
}

// chances are those that any row uses an expert.
func (c *calibrated) chances(rows []Row, each float64, layer, target int, keep func(guess)) []float32 {
	none, told := make([]float64, c.w.Experts), make([]float32, c.w.Experts)
	for e := range none {
		none[e] = 1
	}
	for _, r := range rows {
		g := c.guess(r, layer, target)
		for e, p := range g.Said() {
			none[e] *= 1 - p
		}
		if keep != nil {
			keep(g)
		}
	}
	for e, p := range none {
		if each > 1 {
			p = math.Pow(p, each)
		}
		told[e] = float32(1 - p)
	}
	return told
}

// rowBefore is the row of the sequence of which a layer is known: this one for the next step.
func (c *calibrated) rowBefore(r Row, layer, target int) int {
	switch {
	case target == layer:
		return r.At
	case c.w.Steps[c.step].Prefill || c.answers && r.At == r.Prompt:
		return -1
	}
	return r.At - 1
}

// learn takes in what rows' gates have chosen in a layer.
func (c *calibrated) learn(layer int) {
	for _, g := range c.pending[layer] {
		c.Teach(g.Guess, g.row.Chosen(g.row.At, layer))
	}
	rows := c.w.Steps[c.step].Rows
	if !c.w.Steps[c.step].Prefill {
		for _, r := range rows { // what the row before said of this one
			if r.At > r.Prompt {
				before := r
				before.At--
				g := c.guess(before, layer, layer)
				g.Said()
				c.Teach(g.Guess, r.Chosen(r.At, layer))
			}
		}
	}
	for e, n := range c.w.Loads(c.step, layer) {
		c.Count(layer, e, float64(n))
	}
	if layer == c.w.Layers-1 {
		c.Rows(len(rows))
		for _, r := range rows {
			c.tokens.Add(r.Tokens[r.At], r.Map(r.At))
		}
	}
}
