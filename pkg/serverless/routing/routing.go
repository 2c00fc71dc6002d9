// Package routing makes expert choices of rows as a gate would: a generator whose
// few parameters are fitted to a recording, for models of any shape.
//
// Popularity is log-normal: an expert's weight is exp of a sum of three normal
// numbers, one that all domains of text share, one of the domain, and one of the
// topic that a request has within its domain. A row takes its predecessor's
// experts of a layer with one probability (a row's neighbours are alike), and
// with another the choice that lies where the layer before had its own (layers
// are correlated); neither changes how popular an expert is.
package routing

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// Shape is what of a model routing depends on.
type Shape struct {
	Layers, Experts, TopK int
}

// The largest shape: choices are two bytes, and tables are made for all layers.
const (
	mostLayers  = 1024
	mostExperts = 1024
)

// Check says what is wrong with a shape.
func (s Shape) Check() error {
	switch {
	case s.Layers < 1 || s.Layers > mostLayers:
		return fmt.Errorf("a model has %d layers; it must have 1 to %d", s.Layers, mostLayers)
	case s.Experts < 1 || s.Experts > mostExperts:
		return fmt.Errorf("a layer has %d experts; it must have 1 to %d", s.Experts, mostExperts)
	case s.TopK < 1 || s.TopK > s.Experts:
		return fmt.Errorf("a row goes to %d of %d experts; it must be 1 or more, and no more than there are", s.TopK, s.Experts)
	}
	return nil
}

// topics are how many a domain has.
const topics = 4

// Generator makes choices of a model of one shape.
type Generator struct {
	Shape
	domains int
	even    bool
	params  []Layer // of each layer
	tables  []table // of each topic of each domain, and of its layers
	seed    uint64
}

// tableBits is how finely popularity is told: a table is the inverse of its sum.
const tableBits = 12

type table [1 << tableBits]uint16

// New is a generator for a shape and so many domains. The same arguments make the
// same choices.
func New(s Shape, p Params, domains int, seed uint64) (*Generator, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if domains < 1 {
		return nil, fmt.Errorf("there are %d domains; there must be at least 1", domains)
	}
	g := &Generator{Shape: s, domains: domains, even: p.Even, seed: seed, params: make([]Layer, s.Layers)}
	for l := range g.params {
		g.params[l] = p.at(l, s.Layers)
	}
	if !g.even {
		g.tables = make([]table, domains*topics*s.Layers)
		for l := range s.Layers {
			g.fill(l)
		}
	}
	return g, nil
}

// fill makes a layer's tables.
func (g *Generator) fill(l int) {
	n := normals{state: splitmix.Mix(g.seed ^ splitmix.Mix(uint64(l)+1))}
	p := g.params[l]
	common := n.draw(g.Experts, p.Common)
	weights := make([]float64, g.Experts)
	for d := range g.domains {
		domain := n.draw(g.Experts, p.Domain)
		for t := range topics {
			topic := n.draw(g.Experts, p.Topic)
			for e := range weights {
				weights[e] = math.Exp(common[e] + domain[e] + topic[e])
			}
			g.tables[(d*topics+t)*g.Layers+l].set(weights)
		}
	}
}

// set gives each expert its part of the table.
func (t *table) set(weights []float64) {
	total, sum, i := 0.0, 0.0, 0
	for _, w := range weights {
		total += w
	}
	for e, w := range weights {
		sum += w
		for ; i < len(t) && float64(i)+0.5 <= sum/total*float64(len(t)); i++ {
			t[i] = uint16(e)
		}
	}
	for ; i < len(t); i++ { // what rounding left
		t[i] = uint16(len(weights) - 1)
	}
}

// normals are normally distributed numbers from a seed.
type normals struct{ state uint64 }

// draw are n numbers with this standard deviation, and mean 0.
func (n *normals) draw(count int, deviation float64) []float64 {
	xs := make([]float64, count)
	for i := range xs {
		xs[i] = deviation * n.next()
	}
	return xs
}

// next is by Box and Muller.
func (n *normals) next() float64 {
	u, v := n.uniform(), n.uniform()
	return math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v)
}

func (n *normals) uniform() float64 { return splitmix.Unit(splitmix.Next(&n.state)) }
