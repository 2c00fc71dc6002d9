package ods

import (
	"slices"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// Random draws each layer's mode among those that it can have, and solves for the rest. Where the limit
// cannot be kept so, the layers are as fast as they can be.
func Random(s *scatter.System, loads [][]float64, seconds float64, set Settings, seed uint64) (*Result, error) {
	x, err := newProblem(s, loads, set)
	if err != nil {
		return nil, err
	}
	drawn := make([][]scatter.Mode, s.Layers)
	for l := range drawn {
		var can []scatter.Mode
		for _, m := range scatter.Modes {
			if x.all(l, m, 1, false) != nil {
				can = append(can, m)
			}
		}
		i := int(splitmix.Next(&seed) % uint64(len(can)))
		drawn[l] = can[i : i+1]
	}
	modes := func(l int) []scatter.Mode { return drawn[l] }
	if t, c := x.best(modes, x.left(seconds)); c != nil {
		return x.result(t, c.at, 0), nil
	}
	t := x.points(modes, x.betas, false)
	at, _ := fastest(t)
	return x.result(t, at, 0), nil
}

// LambdaML deploys without a prediction: all experts with the largest memory and one replica, and
// one mode for all layers. A mode other than Direct can always be had.
func LambdaML(s *scatter.System, m scatter.Mode) *scatter.Plan {
	largest := slices.Max(s.Functions.Sizes)
	p := &scatter.Plan{Layers: make([]scatter.Layer, s.Layers)}
	for l := range p.Layers {
		p.Layers[l] = scatter.Layer{Mode: m, Experts: slices.Repeat([]scatter.Function{{Memory: largest, Replicas: 1}}, s.Experts)}
		if m == scatter.Pipelined {
			p.Layers[l].Beta = pipelinedRows
		}
	}
	return p
}

// pipelinedRows are those of minibatches that are not planned, assumed.
const pipelinedRows = 64

// Cluster is a machine with processors that holds the whole model, and is billed all its memory for
// as long as it computes.
type Cluster struct {
	CPU    cost.Roofline
	Memory float64 // bytes
	Price  float64 // dollars for a GB and second
}

// Serve is the bill of a batch: experts of a layer are computed beside each other, so that a layer
// takes the larger of reading what has rows and of multiplying them, and an overhead for each.
func (c *Cluster) Serve(s *scatter.System, loads [][]float64) scatter.Bill {
	b := scatter.Bill{}
	for _, of := range loads {
		read, rows, over := 0.0, 0.0, 0.0
		for _, d := range of {
			if d > 0 {
				read, rows, over = read+s.Expert, rows+d, over+c.CPU.Overhead
			}
		}
		took := over + max(read/c.CPU.Bandwidth, rows*c.CPU.Row(s.Expert))
		b.Layers = append(b.Layers, took)
		b.Seconds += took
	}
	b.Cost = cost.Prices{Memory: c.Price}.Run(c.Memory, b.Seconds)
	b.GBs = meter.Invocation(b.Seconds, c.Memory, 1)
	return b
}
