package cpu

import "math"

// fma32 is a·b+c rounded once. The product of two float32 is exact in float64;
// only the sum may be rounded twice, which matters when the first rounding
// lands on a float32 tie or below the normal range.
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	if math.Float64bits(s)&0x1fffffff == 0x10000000 || math.Abs(s) < 0x1p-126 {
		return fmaOdd(p, z, s)
	}
	return float32(s)
}

// fmaOdd rounds p+z to odd in float64 before it rounds to float32, so that the
// second rounding sees which side of the tie the exact sum lies on.
func fmaOdd(p, z, s float64) float32 {
	bb := s - p
	residue := (p - (s - bb)) + (z - bb)
	bits := math.Float64bits(s)
	if residue == 0 || s != s || bits&1 == 1 {
		return float32(s)
	}
	if (residue > 0) == (s > 0) {
		return float32(math.Float64frombits(bits + 1))
	}
	return float32(math.Float64frombits(bits - 1))
}

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
