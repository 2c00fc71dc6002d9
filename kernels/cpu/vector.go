package cpu

import (
	"fmt"
	"math"
)

// whole returns the part of n that vector kernels take; the rest goes through a padded block.
func whole(n int) int { return n &^ (lanes - 1) }

func mustMatch(what string, n int, others ...int) {
	for _, o := range others {
		if o < n {
			panic(fmt.Sprintf("cpu.%s: vectors of %d and %d values", what, n, o))
		}
	}
}

// RMSNorm is dst = weight · (x / sqrt(mean(x²) + eps)) for one row; dst may be x.
func RMSNorm(dst, x, weight []float32, eps float32) {
	mustMatch("RMSNorm", len(x), len(dst), len(weight))
	n := whole(len(x))
	var acc, rest [lanes]float32
	sumSquares(&acc, x[:n])
	if n < len(x) {
		copy(rest[:], x[n:])
		sumSquares(&acc, rest[:])
	}
	mean := tree(&acc) / float32(len(x))
	inv := 1 / float32(math.Sqrt(float64(mean+eps)))
	norm(dst[:n], x[:n], weight[:n], inv)
	normGeneric(dst[n:], x[n:], weight[n:], inv)
}

// Add is dst += a.
func Add(dst, a []float32) {
	mustMatch("Add", len(a), len(dst))
	n := whole(len(a))
	add(dst[:n], a[:n])
	addGeneric(dst[n:], a[n:])
}

// Scale is x *= a.
func Scale(x []float32, a float32) {
	n := whole(len(x))
	scale(x[:n], a)
	scaleGeneric(x[n:], a)
}

// SwiGLU is dst = (gate / (1 + e^-gate)) · up; dst may be one of them.
func SwiGLU(dst, gate, up []float32) {
	mustMatch("SwiGLU", len(gate), len(dst), len(up))
	n := whole(len(gate))
	swiGLU(dst[:n], gate[:n], up[:n])
	swiGLUGeneric(dst[n:], gate[n:], up[n:])
}

// ClampedSwiGLU is dst = (up + 1) · (gate / (1 + e^(-1.702·gate))) with gate cut off
// above limit and up beyond ±limit; dst may be one of them.
func ClampedSwiGLU(dst, gate, up []float32, limit float32) {
	mustMatch("ClampedSwiGLU", len(gate), len(dst), len(up))
	n := whole(len(gate))
	clampedSwiGLU(dst[:n], gate[:n], up[:n], limit)
	clampedSwiGLUGeneric(dst[n:], gate[n:], up[n:], limit)
}

// RoPE rotates one head x (C) in place as Hugging Face's rotate_half does:
// the pairs are (x[i], x[i+C/2]); cos and sin hold C/2 values, or C of which
// the first half counts.
func RoPE(x, cos, sin []float32) {
	half := len(x) / 2
	mustMatch("RoPE", half, len(cos), len(sin))
	low, high, n := x[:half], x[half:][:half], whole(half)
	turn(low[:n], high[:n], cos[:n], sin[:n])
	turnGeneric(low[n:], high[n:], cos[n:half], sin[n:half])
}

// RoPEPairs rotates one head x (C) in place, pairing x[2i] with x[2i+1]
// (interleaved): the pairs are complex numbers, as in RoFormer (arXiv:2104.09864,
// section 3.2.2). cos and sin hold C/2 values.
func RoPEPairs(x, cos, sin []float32) {
	half := len(x) / 2
	mustMatch("RoPEPairs", half, len(cos), len(sin))
	cos, sin = cos[:half], sin[:half]
	for i := range half {
		pair := x[2*i : 2*i+2]
		a, b := pair[0], pair[1]
		pair[0] = float32(a*cos[i]) - float32(b*sin[i])
		pair[1] = float32(b*cos[i]) + float32(a*sin[i])
	}
}

// Softmax is x = e^(x-max) · (1/Σ) in place.
func Softmax(x []float32) {
	if len(x) == 0 {
		return
	}
	n := whole(len(x))
	rest := filled(math.Inf(-1))
	copy(rest[:], x[n:])
	top := max(scaleMax(x[:n], 1), scaleMax(rest[:], 1))
	var acc [lanes]float32
	expSum(&acc, x[:n], top)
	expSum(&acc, rest[:], top)
	copy(x[n:], rest[:])
	Scale(x, 1/tree(&acc))
}

func filled(v float64) (block [lanes]float32) {
	for i := range block {
		block[i] = float32(v)
	}
	return block
}

// argmaxBlock values are looked through for their largest at a time.
const argmaxBlock = 32 * lanes

// Argmax returns the lowest index of the largest value. No NaN is larger than another value, and none is larger than
// a NaN that comes first.
func Argmax(x []float32) int {
	if len(x) == 0 || x[0] != x[0] {
		return 0
	}
	top, from, n := x[0], 0, whole(len(x))
	for at := 0; at < n; at += argmaxBlock {
		if v := most(x[at:min(n, at+argmaxBlock)]); v > top {
			top, from = v, at
		}
	}
	if v := mostGeneric(x[n:]); v > top {
		top, from = v, n
	}
	for x[from] != top {
		from++
	}
	return from
}

// TopK writes the len(ids) largest values of x in descending order with their
// indices. Of equal values the lower index comes first; NaN comes last.
func TopK(ids []int32, vals []float32, x []float32) {
	mustMatch("TopK", len(ids), len(vals), len(x))
	found := 0
	for i, v := range x {
		if found == len(ids) && (found == 0 || !above(v, vals[found-1])) {
			continue
		}
		at := min(found, len(ids)-1)
		for at > 0 && above(v, vals[at-1]) {
			ids[at], vals[at] = ids[at-1], vals[at-1]
			at--
		}
		ids[at], vals[at] = int32(i), v
		found = min(found+1, len(ids))
	}
}

func above(a, b float32) bool { return a > b || (b != b && a == a) }
