package choices

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// StateFigures are what of texts' rows is measured. Correlations are of logits, from which is
// taken what all rows have in common.
type StateFigures struct {
	// Entropy is a row's, as a part of the largest; TextEntropy that of the mean of a text's rows.
	Entropy, TextEntropy float64
	// Domain and Text are the correlations of rows of a domain's texts, and of far rows of a
	// text; Token that of the same token in different domains' texts, or where there are none
	// in different texts of a domain, without what these share; Neighbour that of neighbours.
	Domain, Text, Token, Neighbour float64
	// Ahead and Ahead3 are the correlations of a layer's logits and those that its gate makes
	// of the state one and three layers before.
	Ahead, Ahead3 float64
	// Sharp and Common are the standard deviations over experts of logits, and of their means.
	Sharp, Common float64
}

// CheckRows says what does not fit together.
func CheckRows(g *routing.Gates, texts []*routing.Rows) error {
	if len(texts) < 2 {
		return errors.New("correlations need two texts at least")
	}
	for i, t := range texts {
		if t.Shape != g.Shape || t.Width != g.Width || t.N < 1 || len(t.Probabilities) != t.N*t.Layers*t.Experts {
			return fmt.Errorf("text %d is of %d layers, %d experts and %d rows, and does not fit its gates", i, t.Layers, t.Experts, t.N)
		}
	}
	return nil
}

// correlator has the centred logits of all rows in one layer.
type correlator struct {
	texts  []*routing.Rows
	logits [][]float32 // of each text (N, experts)
	layer  int
	energy float64 // the mean square
	common float64
}

// Correlate measures texts.
func Correlate(g *routing.Gates, texts []*routing.Rows) (f StateFigures, err error) {
	if err := CheckRows(g, texts); err != nil {
		return f, err
	}
	n := float64(g.Layers)
	lost := float64(g.Experts) / max(1, float64(g.Experts-1)) // of the variance, as rows' means are taken away
	var ahead, ahead3 mean
	for l := range g.Layers {
		c := correlate(g, texts, l)
		d, t, k, b := c.pairs()
		f.Domain, f.Text, f.Token, f.Neighbour = f.Domain+d/n, f.Text+t/n, f.Token+k/n, f.Neighbour+b/n
		f.Sharp, f.Common = f.Sharp+math.Sqrt(c.energy*lost)/n, f.Common+math.Sqrt(c.common*lost)/n
		e, te := c.entropies()
		f.Entropy, f.TextEntropy = f.Entropy+e/n, f.TextEntropy+te/n
		if l >= 1 {
			ahead.add(c.ahead(g, 1))
		}
		if l >= 3 {
			ahead3.add(c.ahead(g, 3))
		}
	}
	f.Ahead, f.Ahead3 = ahead.get(), ahead3.get()
	return f, nil
}

func correlate(g *routing.Gates, texts []*routing.Rows, layer int) *correlator {
	c := &correlator{texts: texts, layer: layer}
	common, rows := make([]float64, g.Experts), 0
	for _, t := range texts {
		x := make([]float32, t.N*g.Experts)
		for r := range t.N {
			centre(x[r*g.Experts:(r+1)*g.Experts], t.Of(r, layer))
			for e := range common {
				common[e] += float64(x[r*g.Experts+e])
			}
		}
		rows += t.N
		c.logits = append(c.logits, x)
	}
	for e := range common {
		common[e] /= float64(rows)
		c.common += common[e] * common[e] / float64(g.Experts)
	}
	for _, x := range c.logits {
		for i := range x {
			x[i] -= float32(common[i%g.Experts])
			c.energy += float64(x[i]) * float64(x[i]) / float64(rows*g.Experts)
		}
	}
	return c
}

// centre makes logits of probabilities, with mean 0.
func centre(into, p []float32) {
	const least = 1e-9
	sum := float32(0)
	for e, v := range p {
		into[e] = float32(math.Log(max(least, float64(v))))
		sum += into[e]
	}
	for e := range into {
		into[e] -= sum / float32(len(into))
	}
}

func (c *correlator) row(text, row int) []float32 {
	n := c.texts[text].Experts
	return c.logits[text][row*n : (row+1)*n]
}

// like is how alike two rows are.
func (c *correlator) like(a, ra, b, rb int) float64 {
	x := c.row(a, ra)
	return float64(routing.Dot(x, c.row(b, rb))) / float64(len(x)) / max(1e-12, c.energy)
}

// pairs are the correlations of rows of a domain, of a text, of a token, and of neighbours.
// Each row of a text is taken with one of each of some other texts, and with two of its own.
func (c *correlator) pairs() (domain, text, token, neighbour float64) {
	var d, t, k, b, foreign mean
	for i, one := range c.texts {
		for r := range one.N {
			if r+far < one.N && one.Tokens[r] != one.Tokens[r+far] {
				t.add(c.like(i, r, i, r+far))
			}
			if r+1 < one.N && one.Tokens[r] != one.Tokens[r+1] {
				b.add(c.like(i, r, i, r+1))
			}
		}
		for j := range i {
			c.between(i, j, &d, &k, &foreign)
		}
	}
	return d.get() - foreign.get(), t.get() - foreign.get(), k.get(), b.get() - foreign.get()
}

// between adds pairs of two texts.
func (c *correlator) between(i, j int, domain, token, foreign *mean) {
	a, b := c.texts[i], c.texts[j]
	at := make(map[uint32]int, b.N)
	for r, id := range b.Tokens {
		at[id] = r
	}
	base := mean{}
	for r := range a.N {
		other := r % b.N
		if a.Tokens[r] != b.Tokens[other] {
			base.add(c.like(i, r, j, other))
		}
	}
	if a.Domain == b.Domain {
		domain.add(base.get())
	} else {
		foreign.add(base.get())
	}
	for r, id := range a.Tokens {
		if other, there := at[id]; there {
			token.add(c.like(i, r, j, other) - base.get())
		}
	}
}

// entropies are a row's and that of the mean of a text's rows, as parts of the largest.
func (c *correlator) entropies() (row, text float64) {
	var rows, texts mean
	for _, t := range c.texts {
		sum := make([]float32, t.Experts)
		for r := range t.N {
			p := t.Of(r, c.layer)
			rows.add(entropy(p))
			for e, v := range p {
				sum[e] += v / float32(t.N)
			}
		}
		texts.add(entropy(sum))
	}
	return rows.get(), texts.get()
}

func entropy(p []float32) (h float64) {
	for _, v := range p {
		if v > 0 {
			h -= float64(v) * math.Log(float64(v))
		}
	}
	return h / math.Log(max(2, float64(len(p))))
}

// ahead is the correlation of logits and those that the gate makes of states before.
func (c *correlator) ahead(g *routing.Gates, distance int) float64 {
	var xy, xx, yy float64
	guess := make([][]float32, len(c.texts))
	sum, rows := make([]float32, g.Experts), 0
	for i, t := range c.texts {
		guess[i] = make([]float32, t.N*g.Experts)
		for r := range t.N {
			x := guess[i][r*g.Experts : (r+1)*g.Experts]
			g.Logits(c.layer, t.State(r, c.layer-distance), x)
			routing.Softmax(x)
			centre(x, x)
			for e, v := range x {
				sum[e] += v
			}
		}
		rows += t.N
	}
	for i := range guess {
		for at, v := range guess[i] {
			x, y := float64(v-sum[at%g.Experts]/float32(rows)), float64(c.logits[i][at])
			xy, xx, yy = xy+x*y, xx+x*x, yy+y*y
		}
	}
	return xy / max(1e-12, math.Sqrt(xx*yy))
}

// FitStates are the parameters that make rows correlate as measured ones do. The parts of the
// generator's states are its correlations, so that none has to be searched for.
func FitStates(f StateFigures) routing.StateParams {
	share := func(v float64) float64 { return min(1, max(0, v)) }
	p := routing.StateParams{
		Domain: share(f.Domain), Topic: share(f.Text - f.Domain), Token: share(f.Token), Context: share(f.Neighbour - f.Text), Near: routing.Neighbours, Layer: share(f.Ahead),
		Sharp: min(routing.MostDeviation, f.Sharp), Common: min(routing.MostDeviation, f.Common),
	}
	p.Context = share(min(p.Context/routing.Neighbours, 1-p.Domain-p.Topic-p.Token))
	return p.Whole()
}
