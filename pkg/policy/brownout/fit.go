package brownout

import "math"

// Sample is what one step took.
type Sample struct {
	Rows              int
	Accesses, Seconds float64
}

// sound reports whether a sample can be.
func (s Sample) sound() bool {
	return s.Rows > 0 && s.Accesses > 0 && !math.IsInf(s.Accesses, 0) && s.Seconds > 0 && s.Seconds < absurd
}

// stiffness is how much samples must say before a fit leaves what it begins with.
const stiffness = 1e-3

// Fit is the costs, none below 0, by which steps took what they did, as far as three numbers can say
// it: least squares of relative errors. What samples leave open, as those of a constant load do, is
// put down to accesses. A threshold that is chosen by that is too high rather than too low, and the
// samples that come of it say more.
func Fit(samples []Sample) Costs {
	var sound []Sample
	mean := [3]float64{} // of what costs are multiplied with
	seconds := 0.0
	for _, s := range samples {
		if !s.sound() {
			continue
		}
		sound = append(sound, s)
		for k, x := range s.features() {
			mean[k] += x
		}
		seconds += s.Seconds
	}
	if len(sound) == 0 {
		return Costs{}
	}
	// In units of the mean step each cost is about its share of a step.
	unit := [3]float64{}
	for k := range unit {
		unit[k] = seconds / mean[k]
	}
	var e equations
	for _, s := range sound {
		z := s.features()
		for k := range z {
			z[k] *= unit[k] / s.Seconds
		}
		e.add(z)
	}
	share := e.shares(stiffness * float64(len(sound)))
	return Costs{Fixed: share[0] * unit[0], Row: share[1] * unit[1], Access: share[2] * unit[2]}
}

func (s Sample) features() [3]float64 { return [3]float64{1, float64(s.Rows), s.Accesses} }

// equations are those of least squares, of sums that are to be 1.
type equations struct {
	product [3][3]float64
	sum     [3]float64
}

func (e *equations) add(z [3]float64) {
	for i := range z {
		for k := range z {
			e.product[i][k] += z[i] * z[k]
		}
		e.sum[i] += z[i]
	}
}

// shares solves them for numbers that are not below 0, drawn by a weight to what a fit begins with:
// all is for accesses. Of the sets of numbers that are above 0 the one with the least error is taken.
func (e *equations) shares(weight float64) (best [3]float64) {
	for k := range e.product {
		e.product[k][k] += weight
	}
	e.sum[2] += weight
	least := math.Inf(1)
	for set := 1; set < 8; set++ {
		x, ok := e.solve(set)
		if off := e.off(x); ok && off < least {
			best, least = x, off
		}
	}
	return best
}

// off is the squared error but for a constant.
func (e *equations) off(x [3]float64) (sum float64) {
	for i := range x {
		for k := range x {
			sum += x[i] * e.product[i][k] * x[k]
		}
		sum -= 2 * x[i] * e.sum[i]
	}
	return sum
}

// solve has the numbers that a set's bits name, the others being 0; false if one is below 0.
func (e *equations) solve(set int) (x [3]float64, ok bool) {
	a, b := e.product, e.sum
	for k := range a {
		if set>>k&1 == 0 {
			a[k], b[k] = [3]float64{}, 0
			a[k][k] = 1
		}
	}
	for k := range a { // a is positive definite, so that no pivot is 0
		for i := k + 1; i < 3; i++ {
			f := a[i][k] / a[k][k]
			for j := k; j < 3; j++ {
				a[i][j] -= f * a[k][j]
			}
			b[i] -= f * b[k]
		}
	}
	for k := 2; k >= 0; k-- {
		for j := k + 1; j < 3; j++ {
			b[k] -= a[k][j] * x[j]
		}
		if x[k] = b[k] / a[k][k]; x[k] < 0 || math.IsNaN(x[k]) {
			return x, false
		}
	}
	return x, true
}
