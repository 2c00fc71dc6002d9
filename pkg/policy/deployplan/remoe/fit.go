package remoe

import (
	"errors"
	"fmt"
	"math"
)

// Fit is the time of a token's experts by memory: T(y) = θ1·exp(-θ2·y) + θ3 (section IV-E), for y
// in GB.
type Fit struct {
	Theta1, Theta2, Theta3 float64
	R2                     float64 // the share of the variance that it explains
}

// At is the time with so many GB.
func (f Fit) At(y float64) float64 { return f.Theta1*math.Exp(-f.Theta2*y) + f.Theta3 }

// slope is its derivative.
func (f Fit) slope(y float64) float64 { return -f.Theta1 * f.Theta2 * math.Exp(-f.Theta2*y) }

// ErrFit says that times do not fall towards a constant, so that the table is to be used.
var ErrFit = errors.New("times that the curve does not fit")

// leastR2 is from where on a fit counts; assumed.
const leastR2 = 0.8

// FitTimes fits a curve to times by memory, which ascends, by least squares: for each θ2 the other
// two follow, and the best θ2 is searched for.
func FitTimes(memory, seconds []float64) (Fit, error) {
	n := len(memory)
	if n < 3 || len(seconds) != n {
		return Fit{}, fmt.Errorf("%w: there are %d memory sizes and %d times; three of each are the least", ErrFit, n, len(seconds))
	}
	for i, y := range memory {
		if !(y > 0 && seconds[i] > 0) || math.IsInf(y+seconds[i], 0) || i > 0 && y <= memory[i-1] {
			return Fit{}, fmt.Errorf("%w: size %d is %v GB with %v s; sizes ascend, and both are above 0", ErrFit, i, y, seconds[i])
		}
	}
	low, high := 0.01/(memory[n-1]-memory[0]), 20/(memory[1]-memory[0])
	best, left := Fit{}, math.Inf(1)
	try := func(theta2 float64) float64 {
		f, e := fitAt(memory, seconds, theta2)
		if e < left {
			best, left = f, e
		}
		return e
	}
	const grid = 64
	at, ratio := low, math.Pow(high/low, 1./grid)
	for i := range grid + 1 {
		if theta := low * math.Pow(ratio, float64(i)); try(theta) <= left {
			at = theta
		}
	}
	for a, b := at/ratio, at*ratio; b/a > 1+1e-6; {
		third := math.Cbrt(b / a)
		if try(a*third) < try(b/third) {
			b /= third
		} else {
			a *= third
		}
	}
	all := spread(seconds)
	if all <= 1e-18*seconds[0]*seconds[0] || best.Theta1 <= 0 {
		return Fit{}, fmt.Errorf("%w: they do not fall with memory", ErrFit)
	}
	if best.R2 = 1 - left/all; best.R2 < leastR2 {
		return Fit{}, fmt.Errorf("%w: R² is %.3f, and must be %v", ErrFit, best.R2, leastR2)
	}
	return best, nil
}

// spread is the sum of squares about the mean.
func spread(v []float64) (sum float64) {
	mean := 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return sum
}

// fitAt is the best curve for a θ2, whose other two are not negative, and the sum of its squares.
func fitAt(memory, seconds []float64, theta2 float64) (f Fit, squares float64) {
	var n, u1, u2, t1, ut float64
	first := memory[0] // so that no exponential is 0 for all sizes
	for i, y := range memory {
		u := math.Exp(-theta2 * (y - first))
		n, u1, u2, t1, ut = n+1, u1+u, u2+u*u, t1+seconds[i], ut+u*seconds[i]
	}
	f.Theta2 = theta2
	if d := n*u2 - u1*u1; d > 0 {
		f.Theta1 = (n*ut - u1*t1) / d
	}
	if f.Theta3 = (t1 - f.Theta1*u1) / n; f.Theta3 < 0 {
		f.Theta1, f.Theta3 = ut/u2, 0
	}
	f.Theta1 *= math.Exp(theta2 * first)
	for i, y := range memory {
		e := f.At(y) - seconds[i]
		squares += e * e
	}
	return f, squares
}
