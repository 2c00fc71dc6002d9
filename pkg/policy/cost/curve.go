package cost

import (
	"fmt"
	"math"
	"slices"
)

// Curve is a device as it was measured: seconds of an access by its rows, for a unit
// of so many bytes. A unit of other bytes takes proportionally as long.
type Curve struct {
	bytes  float64
	points []Point
}

// Point is one measurement.
type Point struct {
	Rows    int
	Seconds float64
}

// NewCurve takes measurements of accesses to units of so many bytes, in the order of
// their rows. A point that is below the one before it, as noise makes some, is
// lifted to that: more rows never take less.
func NewCurve(bytes float64, points []Point) (*Curve, error) {
	if !(bytes > 0) || math.IsInf(bytes, 0) {
		return nil, fmt.Errorf("a curve is of units of %v bytes; that must be above 0", bytes)
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("a curve has no points; it needs one at least")
	}
	c := &Curve{bytes: bytes, points: slices.Clone(points)}
	for i, p := range c.points {
		switch {
		case p.Rows < 1 || !(p.Seconds > 0) || math.IsInf(p.Seconds, 0):
			return nil, fmt.Errorf("point %d of a curve is %d rows in %v s; both must be above 0", i, p.Rows, p.Seconds)
		case i > 0 && p.Rows <= c.points[i-1].Rows:
			return nil, fmt.Errorf("point %d of a curve has %d rows and the one before it %d; rows must ascend", i, p.Rows, c.points[i-1].Rows)
		case i > 0:
			c.points[i].Seconds = max(p.Seconds, c.points[i-1].Seconds)
		}
	}
	return c, nil
}

// Seconds is read off the line between the points beside a.Rows. Below the first point
// it is that point's; beyond the last one the line through the last two goes on.
func (c *Curve) Seconds(a Access) float64 {
	if a.Rows <= 0 {
		return 0
	}
	return c.at(a.Rows) * a.Bytes / c.bytes
}

func (c *Curve) at(rows int) float64 {
	i, exact := slices.BinarySearchFunc(c.points, rows, func(p Point, rows int) int { return p.Rows - rows })
	switch last := len(c.points) - 1; {
	case exact:
		return c.points[i].Seconds
	case i == 0:
		return c.points[0].Seconds
	case i <= last:
		return between(c.points[i-1], c.points[i], rows)
	case last == 0:
		return c.points[0].Seconds * float64(rows) / float64(c.points[0].Rows)
	default:
		return between(c.points[last-1], c.points[last], rows)
	}
}

// between is the line through two points at so many rows.
func between(a, b Point, rows int) float64 {
	return a.Seconds + (b.Seconds-a.Seconds)*float64(rows-a.Rows)/float64(b.Rows-a.Rows)
}
