package expertmap

import (
	"math"
	"slices"
)

// Input is something that is known of an expert.
type Input int

// The inputs. All but Bias, Used and Rate are logarithms of chances; 0 is not known.
const (
	bias     Input = iota
	Found          // of the map that was found by what gates have said
	Gate           // of the later layer's gate, computed early
	Before         // of the sequence's row before
	used           // 1 if that row used the expert
	rate           // of all rows
	Semantic       // of the map that was found by the embedding
	Learned        // of a network that was trained for the distance
	Token          // of rows of the token
	recent         // of the last rows, beside that of all
	inputs
)

// Head tells weights apart.
type Head struct {
	// Prefill is of rows of prompts.
	Prefill bool
	// Ahead is how many layers ahead; 0 is the same layer in the next step.
	Ahead int
	// Blind is before the first layer.
	Blind bool
}

type weights struct{ w, square [inputs]float64 }

// Learner says how probable it is that a row uses an expert some layers ahead, by all
// that is known of it: what the map says that was found for it (pkg/policy/expertmap), what the
// later layer's gate makes of the row as it is, what the sequence's row before did, what rows of
// its token ask for, and how often the expert is used at all, and by the last rows.
//
// A logistic regression weighs these, for each distance and kind of row apart (Head). It learns
// while rows are served: what says nothing comes to count for nothing, and then all experts have
// about their rates. Chances are calibrated: of experts that are said to be used with 0.3, three
// of ten are. So a host can compare them with how soon it needs what it holds.
//
// It is arithmetic without a clock and without I/O; the same calls give the same bits.
// It is not safe for concurrent use.
type Learner struct {
	layers, experts, topK int
	heads                 map[Head]*weights
	uses                  []float64 // (layers, experts)
	rows                  float64
	late                  lately
}

const (
	// firstRows are what knowing nothing of rates weighs.
	firstRows = 16
	// learning is the rate of the regression's steps (Adagrad's).
	learning = 0.1
	// latelyKept is what is left of a row's weight among the last rows with each later one, and latelyFirst are the rows
	// that say there what all rows do. Both were chosen by simulation, on seeds that no page reports.
	latelyKept, latelyFirst = 0.95, 4
	// leastChance is what logarithms are taken of at least.
	leastChance = 1e-3
	// leastFetched is assumed: of ten experts that are fetched one is used.
	leastFetched = 0.1
)

// lately are the last rows, of which older ones weigh less.
type lately struct {
	uses  []float64 // (layers, experts)
	under []float64 // of rows that have not passed all layers
	rows  float64
}

// pass lets so many rows have passed all layers.
func (y *lately) pass(n int) {
	kept := math.Pow(latelyKept, float64(n))
	for i, uses := range y.under {
		y.uses[i] = kept*y.uses[i] + uses
	}
	y.rows = kept*y.rows + float64(n)
	clear(y.under)
}

// NewLearner knows nothing of a model whose rows use topK experts of each layer.
func NewLearner(layers, experts, topK int) *Learner {
	l := &Learner{layers: layers, experts: experts, topK: topK, heads: map[Head]*weights{}, uses: make([]float64, layers*experts), rows: firstRows}
	even := float64(topK) / float64(experts)
	for i := range l.uses {
		l.uses[i] = even * firstRows
	}
	l.late = lately{uses: make([]float64, len(l.uses)), under: make([]float64, len(l.uses))}
	return l
}

// Least is the chance from which on an expert is worth a prefetch: that of any expert, and some
// less, but no small one. What goes for it has to be used later all the same (residency.NextUse).
func (l *Learner) Least() float64 {
	return max(leastFetched, 0.75*float64(l.topK)/float64(l.experts))
}

// Guess is what is known of a row's experts in a layer, and what is said of them.
type Guess struct {
	of   *weights
	in   []float64 // (experts, inputs)
	said []float64 // (experts)
}

// Guess begins one. Said ends it.
func (l *Learner) Guess(h Head, layer int) *Guess {
	g := &Guess{of: l.head(h), in: make([]float64, l.experts*int(inputs)), said: make([]float64, l.experts)}
	for e := range l.experts {
		*g.at(e, bias) = 1
		at := layer*l.experts + e
		often := l.uses[at] / l.rows
		*g.at(e, rate) = math.Log(often)
		*g.at(e, recent) = math.Log((l.late.uses[at] + latelyFirst*often) / (l.late.rows + latelyFirst) / often)
	}
	return g
}

func (g *Guess) at(expert int, i Input) *float64 { return &g.in[expert*int(inputs)+int(i)] }

func (l *Learner) head(h Head) *weights {
	if h.Ahead > 0 && h.Blind {
		h.Ahead = 1 // nothing of this step is known, however far it is
	}
	if l.heads[h] == nil {
		one := &weights{}
		one.w[rate] = 1 // to begin with experts have their rates
		l.heads[h] = one
	}
	return l.heads[h]
}

// Know takes in what something says of all experts.
func (g *Guess) Know(i Input, row []float32) {
	for e, p := range row {
		*g.at(e, i) = math.Log(float64(p) + leastChance)
	}
}

// Past takes in the row before: what its gate said, and what it chose.
func (g *Guess) Past(row []float32, chosen []uint16) {
	g.Know(Before, row)
	for _, e := range chosen {
		*g.at(int(e), used) = 1
	}
}

// Said are the chances. The slice is the guess's.
func (g *Guess) Said() []float64 {
	for e := range g.said {
		sum := 0.0
		for i, v := range g.in[e*int(inputs) : (e+1)*int(inputs)] {
			sum += g.of.w[i] * v
		}
		g.said[e] = 1 / (1 + math.Exp(-sum))
	}
	return g.said
}

// Teach moves weights towards what was chosen.
func (l *Learner) Teach(g *Guess, chosen []uint16) {
	for e, p := range g.said {
		off := p
		if slices.Contains(chosen, uint16(e)) {
			off--
		}
		for i, v := range g.in[e*int(inputs) : (e+1)*int(inputs)] {
			d := off * v
			g.of.square[i] += d * d
			g.of.w[i] -= learning * d / math.Sqrt(g.of.square[i]+1e-8)
		}
	}
}

// Count counts so many uses of a layer's expert, and Rows so many rows that have passed all layers.
func (l *Learner) Count(layer, expert int, uses float64) {
	l.uses[layer*l.experts+expert] += uses
	l.late.under[layer*l.experts+expert] += uses
}

// Rows counts rows that have passed all layers.
func (l *Learner) Rows(n int) {
	l.rows += float64(n)
	l.late.pass(n)
}

// Take takes over what another one of the same model has learned.
func (l *Learner) Take(from *Learner) {
	l.heads, l.uses, l.rows, l.late = from.heads, from.uses, from.rows, from.late
}

// Tokens are the mean maps of tokens: what rows of one asked for, wherever they stood.
type Tokens struct {
	all    tokenMean
	tokens map[uint32]*tokenMean
}

type tokenMean struct {
	rows float32
	sum  []float32 // (layers, experts)
}

// mostTokens bounds those that are remembered apart; of the others all tokens' mean is told.
const mostTokens = 1 << 13

// NewTokens is of maps of a size.
func NewTokens(size int) *Tokens {
	return &Tokens{tokens: map[uint32]*tokenMean{}, all: tokenMean{sum: make([]float32, size)}}
}

// Add takes a row's map in.
func (t *Tokens) Add(token uint32, m []float32) {
	t.all.add(m)
	one := t.tokens[token]
	if one == nil {
		if len(t.tokens) >= mostTokens {
			return
		}
		one = &tokenMean{sum: make([]float32, len(m))}
		t.tokens[token] = one
	}
	one.add(m)
}

func (t *tokenMean) add(m []float32) {
	t.rows++
	for i, p := range m {
		t.sum[i] += p
	}
}

// fewTokens is how many rows of a token weigh as much as the mean of all tokens.
const fewTokens = 0.5

// Fill fills row with a token's means from an index on; those of all tokens count as few rows.
func (t *Tokens) Fill(token uint32, from int, row []float32) {
	for e := range row {
		row[e] = t.all.sum[from+e] / max(1, t.all.rows)
	}
	if one := t.tokens[token]; one != nil {
		for e := range row {
			row[e] = (one.sum[from+e] + fewTokens*row[e]) / (one.rows + fewTokens)
		}
	}
}
