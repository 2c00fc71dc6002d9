package cost

import (
	"fmt"
	"math"
	"slices"
)

// Speeds are times of accesses as they were measured, by the memory of what computes: a curve by rows
// for each size.
type Speeds struct {
	sizes  []float64
	curves []*Curve
}

// NewSpeeds takes a curve for each of some sizes of memory, which ascend.
func NewSpeeds(sizes []float64, curves []*Curve) (*Speeds, error) {
	if len(sizes) == 0 || len(curves) != len(sizes) {
		return nil, fmt.Errorf("there are %d memory sizes and %d curves of times; each size has one, and there must be one or more", len(sizes), len(curves))
	}
	for i, size := range sizes {
		if !(size > 0) || math.IsInf(size, 0) || i > 0 && size <= sizes[i-1] || curves[i] == nil {
			return nil, fmt.Errorf("size %d is %v bytes; sizes are above 0 and ascend, and each has a curve", i, size)
		}
	}
	return &Speeds{slices.Clone(sizes), slices.Clone(curves)}, nil
}

// Seconds is what an access takes with so much memory: on the line between the sizes beside it.
// Below the first size it grows as memory shrinks, and beyond the last one it stays.
func (s *Speeds) Seconds(size float64, a Access) float64 {
	i, exact := slices.BinarySearch(s.sizes, size)
	switch last := len(s.sizes) - 1; {
	case exact:
		return s.curves[i].Seconds(a)
	case i == 0:
		return s.curves[0].Seconds(a) * s.sizes[0] / size
	case i > last:
		return s.curves[last].Seconds(a)
	}
	part := (size - s.sizes[i-1]) / (s.sizes[i] - s.sizes[i-1])
	return s.curves[i-1].Seconds(a)*(1-part) + s.curves[i].Seconds(a)*part
}
