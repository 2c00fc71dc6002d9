package quantile

import "math"

// MostValues is how many values Interval95 takes at most: as many as it has quantiles for.
const MostValues = len(student) + 1

// student are the quantiles of Student's t distribution at 0.975, by degrees of freedom
// from 1: half the width of a 95 % interval, in standard errors.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
}

// Interval95 is the mean of 1 to MostValues values, and half the width of its 95 % interval
// (Student's t), which is infinite for one value.
func Interval95(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if len(values) < 2 {
		return mean, math.Inf(1)
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, student[len(values)-2] * math.Sqrt(squares/(n-1)/n)
}
