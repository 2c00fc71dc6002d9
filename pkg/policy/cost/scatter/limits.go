package scatter

import (
	"fmt"
	"math"
	"slices"
)

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

// Shape says whether there is no bill of such a plan.
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
