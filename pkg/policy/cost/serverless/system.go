package serverless

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Model is what the parts of a model weigh, in bytes.
type Model struct {
	Layers, Experts, TopK int
	Expert                float64 // one routed expert: μ(e)
	Fixed                 float64 // all that is none: Σ μ(f)
	Token                 float64 // a row on its way to an expert: D
	Cache                 float64 // a token's keys and values in all layers: Σ a
}

// All are the bytes of all routed experts.
func (m Model) All() float64 { return float64(m.Layers*m.Experts) * m.Expert }

// System is a model on what is rented for it.
type System struct {
	Model
	// Functions is where experts run: local ones as those of functions, with the host's memory.
	Functions cost.Platform
	Main      []float64     // bytes of memory that the main model's host can have, ascending
	GPU       cost.Roofline // computes what is no expert; its overhead is that of an expert there
	GPULayer  float64       // seconds of a layer beside that: launches of kernels
	GPUPrice  float64       // dollars for a GB of its memory and a second: c^g
	Switch    cost.Link     // between the GPU and its host: τ_sw
	Network   float64       // bytes a second between the main model and functions: B
	Replicas  int           // of a function, at most: z^max
	Printed   bool
}

// mostReplicas bounds a function's replicas, each number of which planning tries.
const mostReplicas = 64

// ErrSystem says that a system cannot be.
var ErrSystem = errors.New("a system that cannot serve")

// Check says what is wrong with a system, and what to do.
func (s *System) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSystem}, args...)...)
	}
	switch {
	case s.Layers < 1 || s.Experts < 1 || s.TopK < 1 || s.TopK > s.Experts:
		return wrong("%d layers send a row to %d of %d experts; there must be 1 of each or more, and no more chosen than there are", s.Layers, s.TopK, s.Experts)
	case s.Replicas < 1 || s.Replicas > mostReplicas:
		return wrong("functions have %d replicas at most; set it to 1 to %d", s.Replicas, mostReplicas)
	case len(s.Main) == 0:
		return wrong("the main model's host has no memory sizes; name one or more")
	}
	for _, n := range []struct {
		what  string
		v     float64
		above bool // 0
	}{
		{"an expert's bytes are", s.Expert, true}, {"the other bytes of the model are", s.Fixed, false}, {"a row's bytes are", s.Token, true},
		{"a token's keys and values are", s.Cache, false}, {"the price of the GPU's memory is", s.GPUPrice, false}, {"the network's bytes a second are", s.Network, true},
		{"the GPU's bytes a second are", s.GPU.Bandwidth, true}, {"the GPU's operations a second are", s.GPU.Rate, true}, {"the bytes of the GPU's elements are", s.GPU.ElementBytes, true},
		{"the GPU's overhead is", s.GPU.Overhead, false}, {"a layer's seconds on the GPU are", s.GPULayer, false},
	} {
		if !(n.v >= 0) || math.IsInf(n.v, 0) || n.above && n.v == 0 {
			return wrong("%s %v; set a finite number of at least 0, and of bytes and speeds one above it", n.what, n.v)
		}
	}
	for i, m := range s.Main {
		if !(m > 0) || math.IsInf(m, 0) || i > 0 && m <= s.Main[i-1] {
			return wrong("size %d of the main model's host is %v bytes; sizes are above 0 and ascend", i, m)
		}
	}
	if err := errors.Join(s.Functions.Check(), s.Switch.Check()); err != nil {
		return wrong("%w", err)
	}
	switch largest := s.Sizes()[len(s.Sizes())-1]; {
	case s.Functions.Memory == 0:
		return wrong("memory costs nothing, so that every plan is as cheap as the others; set a price above 0")
	case s.Functions.Payload < s.Token:
		return wrong("an invocation takes %v bytes, and a row has %v; raise the payload to one row or more", s.Functions.Payload, s.Token)
	case largest < s.Expert+s.Token:
		return wrong("the largest function has %v bytes, and an expert with a row takes %v; add a larger size", largest, s.Expert+s.Token)
	}
	return nil
}

// Sizes are the bytes of memory that functions can have: the paper's M, up to V^e.
func (s *System) Sizes() []float64 { return s.Functions.Sizes }

// NonExpert is τ_f: what a layer takes beside its experts, of so many rows.
func (s *System) NonExpert(rows int) float64 {
	r := s.GPU
	r.Overhead = s.GPULayer
	return r.Seconds(cost.Access{Bytes: s.Fixed / float64(s.Layers), Rows: rows})
}

// Compute is τ_c: what an expert takes for rows, with so much memory. A part of a row is the
// chance of one, so that less than one row takes a part of one row's time.
func (s *System) Compute(memory, rows float64) float64 {
	if rows <= 0 {
		return 0
	}
	low := math.Floor(rows)
	at := s.Functions.Takes(memory, cost.Access{Bytes: s.Expert, Rows: int(low)})
	if rows == low {
		return at
	}
	next := s.Functions.Takes(memory, cost.Access{Bytes: s.Expert, Rows: int(low) + 1})
	return at + (rows-low)*(next-at)
}

// Move is τ_sw: what rows take from the GPU to its host, or back.
func (s *System) Move(rows int) float64 { return s.Switch.Seconds(float64(rows) * s.Token) }

// Travel is 2D/B: what a row takes to a function and back.
func (s *System) Travel() float64 { return 2 * s.Token / s.Network }

// Overhead is the mean of t_rem: what an invocation takes beside its work.
func (s *System) Overhead() float64 { return s.Functions.Fixed + s.Functions.Random }
