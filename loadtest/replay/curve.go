package replay

import (
	"math/bits"
	"slices"
)

// Curve is what something takes by a step's rows, as means of what was seen: a point for the
// rows within each factor of two, so that steps of a few rows, which are most, and those with
// prompts each have their own.
type Curve []Point

// Point is a mean of so many.
type Point struct {
	Seen    float64 `json:"seen"`
	Rows    float64 `json:"rows"`
	Seconds float64 `json:"seconds"`
}

func (c *Curve) add(rows int, seconds float64) {
	at := bits.Len(uint(max(0, rows)))
	for len(*c) <= at {
		*c = append(*c, Point{})
	}
	(*c)[at] = (*c)[at].with(Point{1, float64(rows), seconds})
}

func (p Point) with(o Point) Point {
	if n := p.Seen + o.Seen; n > 0 {
		return Point{n, (p.Seen*p.Rows + o.Seen*o.Rows) / n, (p.Seen*p.Seconds + o.Seen*o.Seconds) / n}
	}
	return p
}

// with is the mean of both curves.
func (c Curve) with(o Curve) Curve {
	all := slices.Clone(c)
	for len(all) < len(o) {
		all = append(all, Point{})
	}
	for i, p := range o {
		all[i] = all[i].with(p)
	}
	return all
}

// At is what so many rows take: on the line through the two nearest points, one on each side
// where there are.
func (c Curve) At(rows float64) float64 {
	var a, b Point
	for _, p := range c {
		if p.Seen == 0 {
			continue
		}
		if a, b = b, p; a.Seen > 0 && rows <= b.Rows {
			break
		}
	}
	if a.Seen == 0 || a.Rows == b.Rows {
		return b.Seconds
	}
	return max(0, a.Seconds+(b.Seconds-a.Seconds)*(rows-a.Rows)/(b.Rows-a.Rows))
}
