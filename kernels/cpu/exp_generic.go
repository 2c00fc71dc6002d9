package cpu

import "math"

// Constants of exp32, shared with the assembly.
const (
	expLow   = -87.33 // below it exp32 is 0
	expHigh  = 88     // above it exp32 saturates
	expMagic = 0x1.8p23
	log2e    = 0x1.715476p+0
	ln2High  = 0x1.62e4p-1 // 355/512-like: few bits, so that n·ln2High is exact
	ln2Low   = 0x1.7f7d1cp-20
	expC5    = 1.9875691500e-4
	expC4    = 1.3981999507e-3
	expC3    = 8.3334519073e-3
	expC2    = 4.1665795894e-2
	expC1    = 1.6666665459e-1
	expC0    = 5.0000001201e-1
)

// exp32 is e^x to about one unit in the last place: x = n·ln2 + r, a polynomial
// of r in Horner form, times 2^n. The assembly takes the same steps.
func exp32(x float32) float32 {
	if x < expLow {
		return 0
	}
	if x != x {
		return x
	}
	x = min(x, expHigh)
	t := fma32(x, log2e, expMagic) // the integer n sits in the low bits of t
	n := t - expMagic
	r := fma32(n, -ln2High, x)
	r = fma32(n, -ln2Low, r)
	p := fma32(expC5, r, expC4)
	p = fma32(p, r, expC3)
	p = fma32(p, r, expC2)
	p = fma32(p, r, expC1)
	p = fma32(p, r, expC0)
	p = fma32(p, r, 1)
	p = fma32(p, r, 1)
	// The conversion forbids the compiler to fuse the product into a caller's sum.
	return float32(p * math.Float32frombits(math.Float32bits(t)<<23+0x3f800000))
}

// Sigmoid is 1 / (1 + e^-x).
func Sigmoid(x float32) float32 { return 1 / (1 + exp32(-x)) }
