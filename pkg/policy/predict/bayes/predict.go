package bayes

import (
	"fmt"
	"math"
	"slices"
)

// Method is a way to foretell rows' experts.
type Method struct {
	Name string
	// Average takes the layer's prior for every token, and Alone the token's own counts without
	// P'(f3), as Lina does.
	Average, Alone bool
	// Position takes the position for known, and Attention the key as well: no planner knows it.
	Position, Attention bool
	// Backoff takes less for known where no row of the past had all: f1f2f3, then f1f2, then f1.
	// Without it such rows have the layer's prior.
	Backoff bool
	// Expected gives each expert its posterior of a row, and not a row to the k best.
	Expected bool
}

// Methods are all that are compared: the paper's, its baselines, and each change by itself.
func Methods() []Method {
	return []Method{
		{Name: "bayes"},
		{Name: "lina", Alone: true},
		{Name: "average", Average: true, Expected: true},
		{Name: "bayes+position", Position: true},
		{Name: "bayes+backoff", Position: true, Backoff: true},
		{Name: "bayes+expected", Expected: true},
		{Name: "bayes+backoff+expected", Position: true, Backoff: true, Expected: true},
		{Name: "lina+expected", Alone: true, Expected: true},
		{Name: "bayes+attention", Position: true, Attention: true, Backoff: true},
	}
}

// MethodOf is the method of a name.
func MethodOf(name string) (Method, error) {
	all := Methods()
	if i := slices.IndexFunc(all, func(m Method) bool { return m.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Method{}, fmt.Errorf("no method foretells experts by the name %q; there are %v", name, MethodNames())
}

// MethodNames are those of all methods.
func MethodNames() (names []string) {
	for _, m := range Methods() {
		names = append(names, m.Name)
	}
	return names
}

// Frequency is P'(f3): the share of each token in a text.
type Frequency []float64

// NewFrequency counts the tokens of a text. Tokens outside the vocabulary are refused.
func NewFrequency(vocab int, tokens []uint32) (Frequency, error) {
	f := make(Frequency, vocab)
	for i, token := range tokens {
		if int64(token) >= int64(vocab) {
			return nil, wrong("token %d of the text is %d; tokens are below %d", i, token, vocab)
		}
		f[token] += 1 / float64(len(tokens))
	}
	return f, nil
}

// Predictor foretells by a table.
type Predictor struct {
	*Table
	Method
	Frequency Frequency
	prior     [][]float64
}

// New is a predictor. The frequency may be nil: then every key counts the same.
func New(t *Table, m Method, f Frequency) (*Predictor, error) {
	if t.Pairs() == 0 {
		return nil, wrong("it is empty; build it of a recording")
	}
	if f != nil && len(f) != t.Vocab {
		return nil, wrong("the text's tokens are counted for a vocabulary of %d; the table's has %d", len(f), t.Vocab)
	}
	p := &Predictor{Table: t, Method: m, Frequency: f}
	for l := range t.layers {
		p.prior = append(p.prior, t.prior(l))
	}
	return p, nil
}

// prior are the shares of a layer's experts among all choices.
func (t *Table) prior(l int) []float64 {
	shares := make([]float64, t.Experts)
	for _, list := range t.layers[l].of {
		for _, e := range list {
			shares[e.expert] += float64(e.count)
		}
	}
	if !normalise(shares) {
		for e := range shares {
			shares[e] = 1 / float64(len(shares))
		}
	}
	return shares
}

// normalise divides by the sum; it is false where there is none.
func normalise(shares []float64) bool {
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return false
	}
	for i := range shares {
		shares[i] /= sum
	}
	return true
}

// Posterior fills in the probability of each expert of a layer, by its index, for a row. They sum
// to 1.
func (p *Predictor) Posterior(l int, f Features, into []float64) {
	if !p.Average && p.seen(p.entries(l, f.Token), f, into) {
		return
	}
	copy(into, p.prior[l])
}

// seen sums over what is not known; it is false where no row of the past had what is.
func (p *Predictor) seen(list []entry, f Features, into []float64) bool {
	if p.Attention {
		at, n := span(list, f.Position)
		if p.sum(list[at:at+n], into, func(e entry) bool { return e.key == f.Key }, true) {
			return true
		}
		if !p.Backoff {
			return false
		}
	}
	if p.Position {
		at, n := span(list, f.Position)
		if p.sum(list[at:at+n], into, nil, p.Alone) {
			return true
		}
		if !p.Backoff {
			return false
		}
	}
	return p.sum(list, into, nil, p.Alone)
}

// span is where the entries of a position are.
func span(list []entry, position uint32) (at, n int) {
	at, _ = slices.BinarySearchFunc(list, position, func(e entry, position uint32) int { return int(int64(e.position) - int64(position)) })
	for at+n < len(list) && list[at+n].position == position {
		n++
	}
	return at, n
}

// sum adds up counts, each weighed with its key's frequency unless they count alike. Where the text
// has none of the keys, they do.
func (p *Predictor) sum(list []entry, into []float64, of func(entry) bool, alike bool) bool {
	clear(into)
	for _, e := range list {
		if of == nil || of(e) {
			weight := 1.0
			if !alike && p.Frequency != nil {
				weight = p.Frequency[e.key]
			}
			into[e.expert] += weight * float64(e.count)
		}
	}
	if normalise(into) {
		return true
	}
	return !alike && p.Frequency != nil && p.sum(list, into, of, true)
}

// Best are the experts with the largest posterior, the best first; of equal ones the lower.
func Best(posterior []float64, k int, into []int) []int {
	into = into[:0]
	for range k {
		best := -1
		for e, v := range posterior {
			if (best < 0 || v > posterior[best]) && !slices.Contains(into, e) {
				best = e
			}
		}
		into = append(into, best)
	}
	return into
}

// Loads are the rows that each expert of each layer will have of some rows.
func (p *Predictor) Loads(r *Rows) ([][]float64, error) {
	if err := p.check(r, false); err != nil {
		return nil, err
	}
	if p.Attention && len(r.Keys) != len(p.Layers) {
		return nil, fmt.Errorf("method %s takes keys for known, and the rows have none; record them with --features", p.Name)
	}
	loads := make([][]float64, len(p.layers))
	posterior, best := make([]float64, p.Experts), make([]int, 0, p.TopK)
	for l := range loads {
		loads[l] = make([]float64, p.Experts)
		alike, order := p.alike(r, l)
		for i, f := range order {
			p.Posterior(l, f, posterior)
			n := float64(alike[i])
			if p.Expected {
				for e, v := range posterior {
					loads[l][e] += n * float64(p.TopK) * v
				}
				continue
			}
			best = Best(posterior, p.TopK, best)
			for _, e := range best {
				loads[l][e] += n
			}
		}
	}
	return loads, nil
}

// alike are how many rows are the same as far as the method knows, in the order in which they come.
func (p *Predictor) alike(r *Rows, l int) (counts []int, order []Features) {
	at := map[Features]int{}
	for i, token := range r.Tokens {
		f := Features{Token: token}
		if p.Position {
			f.Position = r.Positions[i]
		}
		if p.Attention {
			f.Key = r.Keys[l][i]
		}
		n, ok := at[f]
		if !ok {
			n = len(order)
			at[f] = n
			counts, order = append(counts, 0), append(order, f)
		}
		counts[n]++
	}
	return counts, order
}

// Real are the rows that each expert had of computed ones.
func (t *Table) Real(r *Rows) ([][]float64, error) {
	if err := t.check(r, true); err != nil {
		return nil, err
	}
	loads := make([][]float64, len(t.Layers))
	for l := range loads {
		loads[l] = make([]float64, t.Experts)
		for _, e := range r.Experts[l] {
			loads[l][e]++
		}
	}
	return loads, nil
}

// Difference is how far foretold rows are from real ones: the mean over layers and experts of the
// absolute difference (figure 10), and the same by the mean load.
func Difference(came, foretold [][]float64) (rows, relative float64) {
	n, sum := 0, 0.0
	for l := range came {
		for e, v := range came[l] {
			rows += math.Abs(v - foretold[l][e])
			sum += v
			n++
		}
	}
	if sum > 0 {
		relative = rows / sum
	}
	return rows / float64(max(1, n)), relative
}
