package cost

import (
	"errors"
	"fmt"
	"math"
)

// Measurement is a call of so many like accesses, and what it took.
type Measurement struct {
	Accesses int
	Access
	Seconds float64
}

// ErrOneSide says that measurements tell nothing of reading, or nothing of computing.
var ErrOneSide = errors.New("all measurements are on one side of the ridge")

// Fit is the roofline that comes nearest to measured calls: the one with the least sum
// of squared relative errors. elementBytes are those of a parameter. It needs
// measurements on both sides of the ridge; where all are on one side, nothing is known of
// the other side's constant, and the fit is refused.
func Fit(elementBytes float64, measured []Measurement) (Roofline, float64, error) {
	if len(measured) < constants {
		return Roofline{}, 0, fmt.Errorf("%d measurements are given; a device has %d constants and needs as many", len(measured), constants)
	}
	for i, m := range measured {
		if m.Accesses < 1 || m.Rows < 1 || !(m.Bytes > 0) || !(m.Seconds > 0) {
			return Roofline{}, 0, fmt.Errorf("measurement %d is %d accesses of %d rows to %v bytes in %v s; all must be above 0",
				i, m.Accesses, m.Rows, m.Bytes, m.Seconds)
		}
	}
	g := descend(begin(elementBytes, measured), measured)
	if !sides(g.Roofline, measured) {
		return g.Roofline, g.call, fmt.Errorf("%w at %.0f rows; measure fewer and more rows", ErrOneSide, g.Ridge())
	}
	return g.Roofline, g.call, nil
}

// Error is the root of the mean squared relative error of a device on measurements.
func Error(d Device, measured []Measurement) float64 {
	sum := 0.0
	for _, m := range measured {
		off := (d.Call+float64(m.Accesses)*d.Seconds(m.Access))/m.Seconds - 1
		sum += off * off
	}
	return math.Sqrt(sum / float64(max(1, len(measured))))
}

// constants are those that a fit looks for.
const constants = 4

// guess is what the fit has so far.
type guess struct {
	Roofline
	call float64
}

func (g *guess) constants() [constants]*float64 {
	return [constants]*float64{&g.Bandwidth, &g.Rate, &g.Overhead, &g.call}
}

func (g guess) error(measured []Measurement) float64 {
	return Error(Device{Timer: g.Roofline, Call: g.call}, measured)
}

// begin is as fast as the fastest measurements, with a tenth of the shortest as overhead.
func begin(elementBytes float64, measured []Measurement) guess {
	g := guess{Roofline: Roofline{ElementBytes: elementBytes}, call: math.Inf(1)}
	for _, m := range measured {
		each := m.Seconds / float64(m.Accesses)
		g.Bandwidth = max(g.Bandwidth, m.Bytes/each)
		g.Rate = max(g.Rate, 2*float64(m.Rows)*m.Bytes/elementBytes/each)
		g.call = min(g.call, m.Seconds/10)
		g.Overhead = g.call / 10
	}
	return g
}

// descend multiplies or divides constants, one or two at a time, as long as that helps,
// and then by smaller factors. Two at a time: what one constant loses another may gain.
func descend(g guess, measured []Measurement) guess {
	best := g.error(measured)
	for step := 2.0; step > 1.0001; {
		better := false
		for _, next := range g.neighbours(step) {
			if e := next.error(measured); e < best {
				g, best, better = next, e, true
			}
		}
		if !better {
			step = math.Sqrt(step)
		}
	}
	return g
}

// neighbours are the guesses with one or two constants multiplied or divided by a step.
func (g guess) neighbours(step float64) (all []guess) {
	for i := range constants {
		for j := range i + 1 {
			for _, by := range [][2]float64{{step, step}, {step, 1 / step}, {1 / step, step}, {1 / step, 1 / step}} {
				next := g
				*next.constants()[i] *= by[0]
				if j < i {
					*next.constants()[j] *= by[1]
				}
				all = append(all, next)
			}
		}
	}
	return all
}

// sides says whether there are measurements on both sides of the ridge.
func sides(r Roofline, measured []Measurement) bool {
	below, above := false, false
	for _, m := range measured {
		below = below || float64(m.Rows) < r.Ridge()
		above = above || float64(m.Rows) > r.Ridge()
	}
	return below && above
}
