//go:build !arm64

package cpu

import "math"

// fma32 returns a·b+c rounded once. The product of two float32 is exact in float64;
// only the sum may be rounded twice, which matters when the first rounding
// lands on a float32 tie or below the normal range.
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	if doubtful(s) {
		return fmaOdd(p, z, s)
	}
	return float32(s)
}

// doubtful reports whether rounding s to float32 may go the wrong way.
func doubtful(s float64) bool {
	return math.Float64bits(s)&0x1fffffff == 0x10000000 || (s < 0x1p-126 && s > -0x1p-126)
}

// fmaOdd rounds p+z to odd in float64 before it rounds to float32, so that the
// second rounding sees which side of the tie the exact sum lies on.
//
//go:noinline
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

// fmaPanel is acc = fma(v, w, acc) for a panel's outputs: fma32 written out,
// because the compiler does not inline it.
func fmaPanel(acc, w *[PanelWidth]float32, v float32) {
	x := float64(v)
	for j := range acc {
		p, z := x*float64(w[j]), float64(acc[j])
		s := p + z
		if doubtful(s) {
			acc[j] = fmaOdd(p, z, s)
			continue
		}
		acc[j] = float32(s)
	}
}
