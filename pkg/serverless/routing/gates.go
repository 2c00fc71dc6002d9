package routing

import (
	"fmt"
	"math"
)

// Gates are what a model's gates compute of a row's state: the logit of an expert is its
// weights times the state, and its bias.
type Gates struct {
	Shape
	Width   int         // of states
	Weights [][]float32 // of each layer (experts, width)
	Bias    [][]float32 // of each layer (experts); nil is none
}

// Check says what does not fit together.
func (g *Gates) Check() error {
	if err := g.Shape.Check(); err != nil {
		return err
	}
	if g.Width < 1 || len(g.Weights) != g.Layers || g.Bias != nil && len(g.Bias) != g.Layers {
		return fmt.Errorf("gates of %d layers and width %d have the weights of %d", g.Layers, g.Width, len(g.Weights))
	}
	for l, w := range g.Weights {
		if len(w) != g.Experts*g.Width || g.Bias != nil && len(g.Bias[l]) != g.Experts {
			return fmt.Errorf("the gate of layer %d has %d weights; %d experts of width %d need %d", l, len(w), g.Experts, g.Width, g.Experts*g.Width)
		}
	}
	return nil
}

// Logits fills into (experts) with what a layer's gate makes of a state.
func (g *Gates) Logits(layer int, state, into []float32) {
	w := g.Weights[layer]
	for e := range into {
		into[e] = Dot(w[e*g.Width:(e+1)*g.Width], state)
	}
	if g.Bias != nil {
		for e, b := range g.Bias[layer] {
			into[e] += b
		}
	}
}

// Dot returns the sum of products, in the order of their numbers.
func Dot(a, b []float32) (sum float32) {
	b = b[:len(a)]
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// Softmax makes probabilities of logits, in place.
func Softmax(x []float32) {
	most, sum := x[0], float32(0)
	for _, v := range x {
		most = max(most, v)
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - most)))
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// TopK fills into with the indexes of the largest values, the largest first; of equal ones
// the first.
func TopK(values []float32, into []uint16) {
	for k := range into {
		best := -1
		for e, v := range values {
			if best >= 0 && v <= values[best] {
				continue
			}
			if !had(into[:k], uint16(e)) {
				best = e
			}
		}
		into[k] = uint16(best)
	}
}

func had(in []uint16, e uint16) bool {
	for _, one := range in {
		if one == e {
			return true
		}
	}
	return false
}

// Rows are a text's tokens as a model's gates see them.
type Rows struct {
	Shape
	Domain int
	// N is how many there are, the first Prompt of a prompt and the others generated.
	N, Prompt  int
	Width      int // of embeddings and states
	Tokens     []uint32
	Embeddings []float32 // (N, Width)
	// States are the gates' inputs (N, layers, Width); nil where they are not known.
	States        []float32
	Probabilities []float32 // (N, layers, experts): softmax of logits, before top-k
	Choices       []uint16  // (N, layers, k)
}

// NewRows returns rows of which nothing is set.
func NewRows(s Shape, width, n, prompt int) *Rows {
	return &Rows{
		Shape: s, N: n, Prompt: prompt, Width: width, Tokens: make([]uint32, n), Embeddings: make([]float32, n*width), States: make([]float32, n*s.Layers*width),
		Probabilities: make([]float32, n*s.Layers*s.Experts), Choices: make([]uint16, n*s.Layers*s.TopK),
	}
}

// Embedding returns a row's.
func (r *Rows) Embedding(row int) []float32 { return r.Embeddings[row*r.Width : (row+1)*r.Width] }

// State returns what a layer's gate sees of a row.
func (r *Rows) State(row, layer int) []float32 {
	at := (row*r.Layers + layer) * r.Width
	return r.States[at : at+r.Width]
}

// Map returns a row's probabilities in all layers (layers, experts).
func (r *Rows) Map(row int) []float32 {
	n := r.Layers * r.Experts
	return r.Probabilities[row*n : (row+1)*n]
}

// Of returns a row's probabilities in a layer.
func (r *Rows) Of(row, layer int) []float32 {
	return r.Map(row)[layer*r.Experts : (layer+1)*r.Experts]
}

// Chosen returns a row's experts in a layer.
func (r *Rows) Chosen(row, layer int) []uint16 {
	at := (row*r.Layers + layer) * r.TopK
	return r.Choices[at : at+r.TopK]
}

// See computes a row's probabilities and choices of its states.
func (r *Rows) See(g *Gates, row int) {
	for l := range r.Layers {
		p := r.Of(row, l)
		g.Logits(l, r.State(row, l), p)
		TopK(p, r.Chosen(row, l))
		Softmax(p)
	}
}
