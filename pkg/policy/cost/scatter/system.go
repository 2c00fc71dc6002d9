package scatter

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Mode is how rows reach a layer's experts and come back: the paper's a.
type Mode int

// The modes. None is no mode.
const (
	None      Mode = iota
	Pipelined      // minibatches through the store, each uploaded while the next is computed
	Indirect       // one object each way through the store
	Direct         // one message each way
)

// Modes are all of them, in the paper's order.
var Modes = []Mode{Pipelined, Indirect, Direct}

var modeNames = []string{"none", "pipelined", "indirect", "direct"}

func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return fmt.Sprintf("mode %d", int(m))
	}
	return modeNames[m]
}

// Model is what the parts of a model weigh, in bytes.
type Model struct {
	Layers, Experts, TopK int     // layers with experts, experts of each, experts of a row
	Expert                float64 // one expert's parameters: P
	Intermediate          float64 // what a function has in memory beside parameters and rows: M^itrm
	In, Out               float64 // a row on its way to an expert, and back: D^in, D^out
	Next                  float64 // the parameters of what comes after a layer's experts
}

// System is a model on a serverless platform.
type System struct {
	Model
	Functions cost.Platform
	// Head, Tail and Between are the seconds before the first layer, after the last, and of each
	// layer beside its experts: T^head, T^tail and T^NE.
	Head, Tail, Between float64
	// Kept has functions keep their parameters from one invocation to the next; without it each
	// invocation loads them.
	Kept bool
	// Gathers says that one invocation gets all of a layer's answers, so that direct transfers also
	// need all of them to be within the payload (figure 4b).
	Gathers bool
}

// ErrSystem says that a system cannot be.
var ErrSystem = errors.New("a system that cannot serve")

// mostLayers, mostExperts and mostReplicas bound what planners try.
const (
	mostLayers   = 1 << 10
	mostExperts  = 1 << 12
	mostReplicas = 64
)

// Check says what is wrong with a system, and what to do.
func (s *System) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSystem}, args...)...)
	}
	switch {
	case s.Layers < 1 || s.Layers > mostLayers || s.Experts < 1 || s.Experts > mostExperts:
		return wrong("%d layers have %d experts each; there must be 1 to %d, and 1 to %d", s.Layers, s.Experts, mostLayers, mostExperts)
	case s.TopK < 1 || s.TopK > s.Experts:
		return wrong("a row goes to %d of %d experts; it must be 1 or more, and no more than there are", s.TopK, s.Experts)
	case s.Functions.Replicas < 1 || s.Functions.Replicas > mostReplicas:
		return wrong("functions have %d replicas at most; set it to 1 to %d", s.Functions.Replicas, mostReplicas)
	}
	for _, n := range []struct {
		what  string
		v     float64
		above bool // 0
	}{
		{"an expert's bytes are", s.Expert, true}, {"a function's other bytes are", s.Intermediate, false},
		{"a row's bytes to an expert are", s.In, true}, {"a row's bytes back are", s.Out, true}, {"the bytes behind a layer's experts are", s.Next, false},
		{"the seconds before the first layer are", s.Head, false}, {"the seconds after the last layer are", s.Tail, false}, {"a layer's other seconds are", s.Between, false},
	} {
		if !(n.v >= 0) || math.IsInf(n.v, 0) || n.above && n.v == 0 {
			return wrong("%s %v; set a finite number of at least 0, and of experts and rows one above it", n.what, n.v)
		}
	}
	if err := s.Functions.Check(); err != nil {
		return wrong("%w", err)
	}
	if largest := s.sizes()[len(s.sizes())-1]; largest < s.Needs(1) {
		return wrong("the largest function has %v bytes, and an expert with a row takes %v; add a larger size", largest, s.Needs(1))
	}
	if s.Functions.Memory == 0 {
		return wrong("memory costs nothing, so that every plan is as cheap as the others; set a price above 0")
	}
	return nil
}

func (s *System) sizes() []float64 { return s.Functions.Sizes }

// Needs is the memory of a replica with so many rows: the left side of 6c.
func (s *System) Needs(rows int) float64 {
	return s.Expert + s.Intermediate + float64(rows)*(s.In+s.Out)
}

// Start is T^str: a warm function's start, in the mean.
func (s *System) Start() float64 { return s.Functions.Fixed + s.Functions.Random }

// Delay is T^dl: the store's time to the first byte.
func (s *System) Delay() float64 { return s.Functions.Parameters.Latency }

// Store is what bytes take through the store beside its delay: bytes by B^s.
func (s *System) Store(bytes float64) float64 { return s.Functions.Parameters.Transfer(bytes) }

// Message is what bytes take in an invocation: bytes by B^d.
func (s *System) Message(bytes float64) float64 {
	return cost.Link{Bandwidth: s.Functions.Direct}.Transfer(bytes)
}

// Begin is h, T^{h,E}: until a replica can compute.
func (s *System) Begin() float64 {
	if s.Kept {
		return s.Start()
	}
	return s.Start() + s.Delay() + s.Store(s.Expert)
}

// Load is T^load: until what is behind a layer's experts can go on.
func (s *System) Load() float64 {
	if s.Kept {
		return s.Start()
	}
	return s.Start() + s.Delay() + s.Store(s.Next)
}

// manyRows are enough for an access's time to be that of its rows.
const manyRows = 1 << 30

// Computes is U(x): what one call takes for so many rows of an expert with so much memory. It is an access: it reads the
// expert's parameters, however few rows there are.
func (s *System) Computes(rows int, memory float64) float64 {
	return s.Functions.Takes(memory, cost.Access{Bytes: s.Expert, Rows: rows})
}

// Row is what one of many rows takes of an expert with so much memory.
func (s *System) Row(memory float64) float64 { return s.Computes(manyRows, memory) / manyRows }

// leastRow is no more than what a row takes, however many come with it: of measured times nothing is known of that.
func (s *System) leastRow(memory float64) float64 {
	if s.Functions.Speeds != nil {
		return 0
	}
	return s.Row(memory)
}
