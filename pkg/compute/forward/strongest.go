package forward

import "errors"

// ErrStrongest says that a computer does not tell which keys counted most.
var ErrStrongest = errors.New("which keys counted most is told for grouped-query attention on the CPU alone")

// KeepStrongest has later steps keep, of each row and layer, the position of the key that counted
// most: its softmax weights summed over all heads, the earliest of equal ones. No bit of what is
// computed changes.
func (s *Step) KeepStrongest() error {
	if err := s.takeLane(); err != nil {
		return err
	}
	l, ok := s.lane.(*lane)
	if !ok {
		return ErrStrongest
	}
	for _, layer := range l.layers {
		if _, ok := layer.mixer.(*groupedQuery); !ok {
			return ErrStrongest
		}
	}
	l.keys = true
	return nil
}

// Strongest returns those of the rows in the newest layer; none if they are not kept. They are
// valid until the next layer.
func (s *Step) Strongest() []int32 {
	if l, ok := s.lane.(*lane); ok && l.keys {
		return l.strongest
	}
	return nil
}

// Residual is x (R, D) of the step under way: behind the attention of a layer whose experts are
// asked, before they add to it. Valid until they have; nil where another device computes.
func (s *Step) Residual() []float32 {
	if l, ok := s.lane.(*lane); ok {
		return l.x
	}
	return nil
}

// strongestOf returns where row i's goes; nil: nobody asks.
func (s *lane) strongestOf(i int) *int32 {
	if !s.keys {
		return nil
	}
	return &s.strongest[i]
}

// largest returns the index of the largest value, the first of equal ones.
func largest(x []float32) (at int) {
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return at
}
