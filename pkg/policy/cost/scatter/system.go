package scatter

import (
	"errors"
	"fmt"
	"math"
	"slices"

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

// Limit is a constraint that a plan breaks.
type Limit struct {
	Name   string // as in the paper: 6c to 6j
	Layer  int    // -1: of the model
	Expert int    // -1: of the layer
	What   string
}

// String says which, where and by how much.
func (l Limit) String() string {
	at := ""
	if l.Layer >= 0 {
		at = fmt.Sprintf(" in layer %d", l.Layer)
	}
	if l.Expert >= 0 {
		at += fmt.Sprintf(", expert %d", l.Expert)
	}
	return fmt.Sprintf("constraint %s%s: %s", l.Name, at, l.What)
}

// Shape reports whether there is no bill of such a plan.
func (l Limit) Shape() bool { return l.Name == "6g" || l.Name == "6j" }

// Limits are the constraints that a plan breaks for rows within so many seconds. Of a plan of the
// wrong shape only that is said.
func (s *System) Limits(p *Plan, loads [][]float64, seconds float64) (broken []Limit) {
	if broken = s.shape(p); len(broken) > 0 {
		return broken
	}
	took := s.Beside()
	for l := range p.Layers {
		broken = append(broken, s.layerLimits(l, &p.Layers[l], loads[l])...)
		took += s.Latency(&p.Layers[l], loads[l])
	}
	if took > seconds {
		broken = append(broken, Limit{"6d", -1, -1, fmt.Sprintf("the batch takes %.3f s, and %.3f are allowed", took, seconds)})
	}
	return broken
}

// shape looks at what no rows are needed for.
func (s *System) shape(p *Plan) (broken []Limit) {
	if len(p.Layers) != s.Layers {
		return []Limit{{"6g", -1, -1, fmt.Sprintf("the plan has %d layers; there are %d", len(p.Layers), s.Layers)}}
	}
	for l, one := range p.Layers {
		if one.Mode < Pipelined || one.Mode > Direct || len(one.Experts) != s.Experts {
			broken = append(broken, Limit{"6g", l, -1, fmt.Sprintf("it has %s transfers and %d experts; modes are 1 to 3, and experts %d", one.Mode, len(one.Experts), s.Experts)})
			continue
		}
		if one.Mode == Pipelined && one.Beta < 1 {
			broken = append(broken, Limit{"6j", l, -1, fmt.Sprintf("minibatches have %d rows; they have 1 or more", one.Beta)})
		}
		for i, f := range one.Experts {
			if !slices.Contains(s.sizes(), f.Memory) || f.Replicas < 1 || f.Replicas > s.Functions.Replicas {
				broken = append(broken, Limit{"6g", l, i, fmt.Sprintf("it has %v bytes and %d replicas; sizes are those of the platform, and replicas 1 to %d", f.Memory, f.Replicas, s.Functions.Replicas)})
			}
		}
	}
	return broken
}

func (s *System) layerLimits(l int, one *Layer, loads []float64) (broken []Limit) {
	most := 0
	for i, d := range loads {
		f := one.Experts[i]
		r := Rows(d, f.Replicas)
		most = max(most, r)
		if needs := s.Needs(r); needs > f.Memory {
			broken = append(broken, Limit{"6c", l, i, fmt.Sprintf("a replica with %d rows takes %.0f bytes, and has %.0f", r, needs, f.Memory)})
		}
		if bytes := float64(r) * max(s.In, s.Out); one.Mode == Direct && d > 0 && bytes > s.Functions.Payload {
			broken = append(broken, Limit{"6f", l, i, fmt.Sprintf("a replica's %d rows are %.0f bytes, and a payload has %.0f", r, bytes, s.Functions.Payload)})
		}
	}
	if answers := s.Answers(loads); one.Mode == Direct && s.Gathers && answers > s.Functions.Payload {
		broken = append(broken, Limit{"6f", l, -1, fmt.Sprintf("the answers are %.0f bytes, and the payload of what gathers them has %.0f", answers, s.Functions.Payload)})
	}
	if one.Mode == Pipelined && most > 0 && one.Beta > most {
		broken = append(broken, Limit{"6e", l, -1, fmt.Sprintf("minibatches have %d rows, and no replica has more than %d", one.Beta, most)})
	}
	return broken
}

// CheckLoads says what is wrong with rows.
func (s *System) CheckLoads(loads [][]float64) error {
	if len(loads) != s.Layers {
		return fmt.Errorf("%w: there are rows of %d layers; the model has %d", ErrSystem, len(loads), s.Layers)
	}
	for l, of := range loads {
		if len(of) != s.Experts {
			return fmt.Errorf("%w: layer %d has rows of %d experts; there are %d", ErrSystem, l, len(of), s.Experts)
		}
		for e, d := range of {
			if !(d >= 0 && d <= manyRows) || math.IsInf(d, 0) {
				return fmt.Errorf("%w: expert %d of layer %d has %v rows; it must be 0 to %d", ErrSystem, e, l, d, manyRows)
			}
		}
	}
	return nil
}
