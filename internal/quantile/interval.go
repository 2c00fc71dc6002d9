package quantile

import "math"

// MostValues is how many values a report keeps of a setting at most, such as those of seeds or turns.
const MostValues = 20

// student are the quantiles of Student's t distribution at 0.975, by degrees of freedom
// from 1: half the width of a 95 % interval, in standard errors.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
}

// quantile975 is that of any degrees of freedom from 1; of many by the first terms of its
// expansion around the normal distribution's.
func quantile975(freedom int) float64 {
	if freedom <= len(student) {
		return student[freedom-1]
	}
	const z = 1.959964
	n := float64(freedom)
	return z + (z*z*z+z)/(4*n) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*n*n)
}

// Interval95 returns the mean of one or more values, and half the width of its 95 % interval
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
	return mean, quantile975(len(values)-1) * math.Sqrt(squares/(n-1)/n)
}
