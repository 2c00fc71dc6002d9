// Package choices makes expert choices of rows as a gate would: a generator whose
// few parameters are fitted to a recording, for models of any shape.
//
// Popularity is log-normal: an expert's weight is exp of a sum of three normal
// numbers, one that all domains of text share, one of the domain, and one of the
// topic that a request has within its domain. A row takes its predecessor's
// experts of a layer with one probability (a row's neighbours are alike), and
// with another the choice that lies where the layer before had its own (layers
// are correlated); neither changes how popular an expert is.
package choices

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Generator makes choices of a model of one shape.
type Generator struct {
	routing.Shape
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
func New(s routing.Shape, p Params, domains int, seed uint64) (*Generator, error) {
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
		g.tables = make([]table, domains*routing.Topics*s.Layers)
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
		for t := range routing.Topics {
			topic := n.draw(g.Experts, p.Topic)
			for e := range weights {
				weights[e] = math.Exp(common[e] + domain[e] + topic[e])
			}
			g.tables[(d*routing.Topics+t)*g.Layers+l].set(weights)
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
