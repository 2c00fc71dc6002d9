// Package splitmix is the counter-based generator of Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", 2014, figure 15.
package splitmix

// Gamma is what a state grows by with each number.
const Gamma = 0x9e3779b97f4a7c15

// Next advances a state and returns its number.
func Next(state *uint64) uint64 {
	*state += Gamma
	return Mix(*state)
}

// Mix returns the finaliser: every bit of z changes about half of the result's.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Unit makes a number of [0, 1) of the upper 53 bits.
func Unit(number uint64) float64 { return float64(number>>11) / (1 << 53) }
