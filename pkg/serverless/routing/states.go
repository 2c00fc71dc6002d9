package routing

import (
	"fmt"
	"math"
	"sort"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// StateParams say how the states that gates see hang together. A state is the sum of parts
// that are normally distributed, each with its share of the variance: what all texts of a
// domain have, what those of its topic have, what the token makes of it wherever it stands,
// and what neighbouring rows of a text have. The rest is the row's own, which nothing foretells
// before its first layer.
type StateParams struct {
	Domain, Topic, Token, Context float64 // shares; no more than 1 together
	// Near is the correlation of neighbours' Context.
	Near float64
	// Layer is the correlation of a row's states in adjacent layers: what a gate that is
	// reused for a later layer knows.
	Layer float64
	// Sharp is the standard deviation of logits over experts, Common that of what is the same
	// for all rows.
	Sharp, Common float64
}

// Check says what is wrong with parameters.
func (p StateParams) Check() error {
	sum := p.Domain + p.Topic + p.Token + p.Context
	for _, v := range []struct {
		what    string
		v, most float64
	}{
		{"share of the domain", p.Domain, 1}, {"share of the topic", p.Topic, 1}, {"share of the token", p.Token, 1}, {"share of the context", p.Context, 1},
		{"sum of the shares", sum, 1 + 1e-9}, {"correlation of neighbours", p.Near, 1}, {"correlation of layers", p.Layer, 1},
		{"deviation of logits", p.Sharp, MostDeviation}, {"common deviation", p.Common, MostDeviation},
	} {
		if !(v.v >= 0 && v.v <= v.most) {
			return fmt.Errorf("the %s is %v; it must be 0 to %v", v.what, v.v, v.most)
		}
	}
	return nil
}

// Stronger has the odds of each share, and of the layers' correlation, times a factor: below 1
// less can be foretold, at 0 nothing but what is common.
func (p StateParams) Stronger(factor float64) StateParams {
	p.Domain, p.Topic, p.Token, p.Context = odds(p.Domain, factor), odds(p.Topic, factor), odds(p.Token, factor), odds(p.Context, factor)
	p.Layer = odds(p.Layer, factor)
	return p.Whole()
}

// Whole returns the parameters with shares of 1 together at most.
func (p StateParams) Whole() StateParams {
	if sum := p.Domain + p.Topic + p.Token + p.Context; sum > 1 {
		p.Domain, p.Topic, p.Token, p.Context = p.Domain/sum, p.Topic/sum, p.Token/sum, p.Context/sum
	}
	return p
}

func odds(share, factor float64) float64 { return share * factor / (1 - share + share*factor) }

// Unpredictable returns the same sharp choices of which nothing foretells any.
func (p StateParams) Unpredictable() StateParams { return StateParams{Sharp: p.Sharp} }

// The rest of the generator's constants are assumed.
const (
	// width is that of states: as many independent directions as experts' choices depend on.
	width = 32
	// vocabulary is how many tokens a domain uses of its own, and functional how many all
	// domains share, which come first: words such as "the".
	vocabulary = 2000
	functional = 100
	// clusters of tokens are alike by half.
	clusters = 64
)

// States makes rows of a model of one shape, as its gates would see them.
type States struct {
	Gates  Gates
	params StateParams
	seed   uint64
	zipf   []float64              // sums of 1/rank
	mixes  [][]float32            // of each layer (width, width): what a token's embedding makes of states
	tokens map[uint32]*tokenParts // those that have come up
}

type tokenParts struct {
	embedding []float32
	states    []float32 // (layers, width)
}

// NewStates returns a generator; the same arguments make the same rows.
func NewStates(s Shape, p StateParams, seed uint64) (*States, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	g := &States{params: p, seed: seed, tokens: map[uint32]*tokenParts{}, Gates: Gates{Shape: s, Width: width}}
	n := source(seed, kindGates, 0)
	for range s.Layers {
		w, bias := make([]float32, s.Experts*width), make([]float32, s.Experts)
		n.fill(w, p.Sharp/math.Sqrt(width))
		n.fill(bias, p.Common)
		g.Gates.Weights, g.Gates.Bias = append(g.Gates.Weights, w), append(g.Gates.Bias, bias)
		mix := make([]float32, width*width)
		n.fill(mix, 1/math.Sqrt(width))
		g.mixes = append(g.mixes, mix)
	}
	sum := 0.0
	for rank := 1; rank <= vocabulary; rank++ {
		sum += 1 / float64(rank)
		g.zipf = append(g.zipf, sum)
	}
	return g, nil
}

// token draws one of a domain's by Zipf's law.
func (g *States) token(domain int, n *stream) uint32 {
	rank := sort.SearchFloat64s(g.zipf, splitmix.Unit(splitmix.Next(&n.state))*g.zipf[vocabulary-1])
	rank = min(rank, vocabulary-1)
	if rank < functional {
		return uint32(rank)
	}
	return uint32(domain*vocabulary + rank)
}

// parts returns what a token makes of states, wherever it stands.
func (g *States) parts(token uint32) *tokenParts {
	if t := g.tokens[token]; t != nil {
		return t
	}
	t := &tokenParts{embedding: make([]float32, width), states: make([]float32, g.Gates.Layers*width)}
	own, like := source(g.seed, kindToken, uint64(token)), source(g.seed, kindCluster, splitmix.Mix(uint64(token))%clusters)
	own.fill(t.embedding, math.Sqrt(0.5))
	cluster := make([]float32, width)
	like.fill(cluster, math.Sqrt(0.5))
	for i, v := range cluster {
		t.embedding[i] += v
	}
	for l, mix := range g.mixes {
		for i := range width {
			t.states[l*width+i] = Dot(mix[i*width:(i+1)*width], t.embedding)
		}
	}
	g.tokens[token] = t
	return t
}

// Rows returns those of a text: as many of its prompt as prompt says, at most all.
func (g *States) Rows(t Text, prompt int) *Rows {
	r := NewRows(g.Gates.Shape, width, t.Rows, min(prompt, t.Rows))
	r.Domain = t.Domain
	w := g.writer(t)
	for row := range t.Rows {
		w.write(r, row)
		r.See(&g.Gates, row)
	}
	return r
}

// stateWriter makes a text's states row by row.
type stateWriter struct {
	*States
	own, words    stream
	shared        []float32 // (layers, width): of domain and topic
	context       []float32 // (layers, width): of the row before
	fresh, before []float32
}

func (g *States) writer(t Text) *stateWriter {
	n := g.Gates.Layers * width
	w := &stateWriter{
		States: g, own: source(g.seed, kindText, t.ID), words: source(g.seed, kindWords, t.ID),
		shared: make([]float32, n), context: make([]float32, n), fresh: make([]float32, n), before: make([]float32, width),
	}
	topic := uint64(t.Domain)*Topics + splitmix.Mix(t.ID^g.seed)%Topics
	domain, own := source(g.seed, kindDomain, uint64(t.Domain)), source(g.seed, kindTopic, topic)
	domain.fill(w.shared, math.Sqrt(g.params.Domain))
	own.fill(w.fresh, math.Sqrt(g.params.Topic))
	for i, v := range w.fresh {
		w.shared[i] += v
	}
	w.own.fill(w.context, 1)
	return w
}

// write makes a row: in each layer a state is that of the layer before, and what is new.
func (w *stateWriter) write(r *Rows, row int) {
	p := w.params
	r.Tokens[row] = w.token(r.Domain, &w.words)
	t := w.parts(r.Tokens[row])
	copy(r.Embedding(row), t.embedding)
	w.own.fill(w.fresh, math.Sqrt(1-p.Near*p.Near))
	for i, v := range w.fresh {
		w.context[i] = float32(p.Near)*w.context[i] + v
	}
	w.own.fill(w.fresh, math.Sqrt(max(0, 1-p.Domain-p.Topic-p.Token-p.Context)))
	token, context := float32(math.Sqrt(p.Token)), float32(math.Sqrt(p.Context))
	keep, take := float32(p.Layer), float32(math.Sqrt(1-p.Layer*p.Layer))
	for l := range w.Gates.Layers {
		state := r.State(row, l)
		for i := range state {
			at := l*width + i
			state[i] = w.shared[at] + token*t.states[at] + context*w.context[at] + w.fresh[at]
			if l > 0 {
				state[i] = keep*w.before[i] + take*state[i]
			}
		}
		copy(w.before, state)
	}
}

// The kinds of what is drawn, so that none depends on another's number.
const (
	kindGates = iota + 1
	kindToken
	kindCluster
	kindDomain
	kindTopic
	kindText
	kindWords
)

// stream are numbers from a seed.
type stream struct {
	state uint64
	left  uint64 // bits of the last number
	n     int    // normals that it still has
}

func source(seed, kind, id uint64) stream {
	return stream{state: splitmix.Mix(seed ^ splitmix.Mix(kind<<56^splitmix.Mix(id+1)))}
}

// fill draws normally distributed numbers with mean 0.
func (s *stream) fill(x []float32, deviation float64) {
	table := splitmix.Normals()
	for i := range x {
		if s.n == 0 {
			s.left, s.n = splitmix.Next(&s.state), 5
		}
		x[i] = float32(deviation * table[s.left&(1<<12-1)])
		s.left >>= 12
		s.n--
	}
}

// Neighbours is the correlation of neighbours' context, assumed: it falls to a fifth within
// the sixteen rows from which on rows count as far.
const Neighbours = 0.9

// Topics are how many a domain has.
const Topics = 4

// MostDeviation bounds deviations of logits: beyond it all rows go to one expert.
const MostDeviation = 10
