// Package ref is the plain, readable form of the kernels: the oracle that every
// variant of package cpu is tested against. It sums in float64.
//
// The letters of shapes are those of package cpu.
package ref

import "math"

// MatMul returns y (R, N) = x (R, K) · wᵀ for w (N, K).
func MatMul(x, w []float32, rows, n, k int) []float32 {
	y := make([]float32, rows*n)
	for r := range rows {
		for j := range n {
			y[r*n+j] = float32(dot(x[r*k:(r+1)*k], w[j*k:(j+1)*k]))
		}
	}
	return y
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// FP4 returns the value of the code e2m1 in the low four bits.
func FP4(code byte) float64 { return minifloat(code&15, 2, 1, 1) }

// FP8 returns the value of the code e4m3fn, which has no infinities.
func FP8(code byte) float64 {
	if code&0x7f == 0x7f {
		return math.NaN()
	}
	return minifloat(code, 4, 3, 7)
}

// minifloat returns a sign, then so many bits of exponent and of mantissa.
func minifloat(code byte, exponent, mantissa, bias int) float64 {
	sign := 1 - 2*float64(code>>(exponent+mantissa))
	exp := int(code) >> mantissa & (1<<exponent - 1)
	frac := float64(int(code)&(1<<mantissa-1)) / float64(int(1)<<mantissa)
	if exp == 0 {
		return sign * math.Ldexp(frac, 1-bias)
	}
	return sign * math.Ldexp(1+frac, exp-bias)
}

// MXFP4 returns the weights of blocks (16 bytes each, low half first) with scales 2^(e-127).
func MXFP4(blocks, scales []byte) []float32 {
	w := make([]float32, 2*len(blocks))
	for i := range w {
		w[i] = float32(math.Ldexp(FP4(blocks[i/2]>>(i%2*4)), int(scales[i/32])-127))
	}
	return w
}

// FP8Weights returns the weights (n, k) of codes with scales (n/128, k/128), both rounded up.
func FP8Weights(codes []byte, scales []float32, n, k int) []float32 {
	w := make([]float32, n*k)
	for i := range w {
		block := i/k/128*((k+127)/128) + i%k/128
		w[i] = float32(FP8(codes[i]) * float64(scales[block]))
	}
	return w
}

// Grouped returns weights as whole numbers of at most most, or one beyond on the side of
// the largest weight of most 7, times a scale for each group that has eight bits.
func Grouped(w []float32, group, most int) []float32 {
	out := make([]float32, len(w))
	for from := 0; from < len(w); from += group {
		top := 0.0
		for _, v := range w[from : from+group] {
			if math.Abs(float64(v)) > math.Abs(top) {
				top = float64(v)
			}
		}
		least, step := -float64(most), math.Abs(top)/float64(most)
		if most == 7 {
			least, step = -8, top/-8
		}
		step = eightBits(step)
		for i := from; i < from+group && step != 0; i++ {
			out[i] = float32(min(float64(most), max(least, math.RoundToEven(float64(w[i])/step))) * step)
		}
	}
	return out
}

// Rounded returns a group's values as whole numbers of at most 127 and their scale in
// float32: 0 for a group that is nearly zero, NaN for one with a value that is no finite number.
func Rounded(x []float32) (codes []int, scale float32) {
	codes, top := make([]int, len(x)), float32(0)
	for _, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return codes, float32(math.NaN())
		}
		top = max(top, v, -v)
	}
	if top < 0x1p-100 {
		return codes, 0
	}
	inverse := 127 / top
	for i, v := range x {
		codes[i] = int(math.RoundToEven(float64(v * inverse)))
	}
	return codes, top / 127
}

// eightBits rounds to a significand of eight bits, ties to even.
func eightBits(x float64) float64 {
	frac, exp := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(frac*256), exp-8)
}

// RMSNorm returns weight · x / sqrt(mean(x²) + eps).
func RMSNorm(x, weight []float32, eps float32) []float32 {
	inv := 1 / math.Sqrt(dot(x, x)/float64(len(x))+float64(eps))
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(float64(weight[i]) * float64(v) * inv)
	}
	return y
}

// Sigmoid is 1 / (1 + e^-x).
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// SwiGLU returns silu(gate) · up.
func SwiGLU(gate, up []float32) []float32 {
	y := make([]float32, len(gate))
	for i, g := range gate {
		y[i] = float32(float64(g) * Sigmoid(float64(g)) * float64(up[i]))
	}
	return y
}

// Softmax returns e^x / Σ e^x.
func Softmax(x []float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Exp(v - top)
		sum += y[i]
	}
	for i := range y {
		y[i] /= sum
	}
	return y
}

// Rotate returns the head x (C) rotated by angles (C/2), pairing x[i] with x[i+C/2].
func Rotate(x, angles []float32) []float32 {
	half := len(x) / 2
	y := make([]float32, len(x))
	for i := range half {
		sin, cos := math.Sincos(float64(angles[i]))
		a, b := float64(x[i]), float64(x[i+half])
		y[i], y[i+half] = float32(a*cos-b*sin), float32(b*cos+a*sin)
	}
	return y
}

// ClampedSwiGLU returns (up+1) · gate · sigmoid(1.702·gate), gate cut off above
// limit and up beyond ±limit (transformers, models/gpt_oss/modeling_gpt_oss.py).
func ClampedSwiGLU(gate, up []float32, limit float64) []float32 {
	y := make([]float32, len(gate))
	for i := range y {
		g, u := min(float64(gate[i]), limit), max(min(float64(up[i]), limit), -limit)
		y[i] = float32((u + 1) * g * Sigmoid(1.702*g))
	}
	return y
}

// AttendSinks is Attend with a score of each query head that has no value.
func AttendSinks(q, keys, values, sinks []float32, g, c int, scale float32) []float32 {
	out := make([]float32, g*c)
	scores := make([]float64, len(keys)/c, len(keys)/c+1)
	for h := range g {
		for p := range scores {
			scores[p] = dot(q[h*c:(h+1)*c], keys[p*c:(p+1)*c]) * float64(scale)
		}
		mix(out[h*c:(h+1)*c], Softmax(append(scores, float64(sinks[h])))[:len(scores)], values)
	}
	return out
}

// Attend returns out (Q, C) for the queries q (Q, C) of one position over keys
// and values (P, C).
func Attend(q, keys, values []float32, g, c int, scale float32) []float32 {
	out := make([]float32, g*c)
	scores := make([]float64, len(keys)/c)
	for h := range g {
		for p := range scores {
			scores[p] = dot(q[h*c:(h+1)*c], keys[p*c:(p+1)*c]) * float64(scale)
		}
		mix(out[h*c:(h+1)*c], Softmax(scores), values)
	}
	return out
}

func mix(out []float32, weights []float64, values []float32) {
	for i := range out {
		sum := 0.0
		for p, w := range weights {
			sum += w * float64(values[p*len(out)+i])
		}
		out[i] = float32(sum)
	}
}

// LayerNorm returns weight · (x − mean) / sqrt(variance + eps) + bias.
func LayerNorm(x, weight, bias []float32, eps float32) []float32 {
	mean, variance, n := 0.0, 0.0, float64(len(x))
	for _, v := range x {
		mean += float64(v) / n
	}
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / n
	}
	inv := 1 / math.Sqrt(variance+float64(eps))
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(float64(weight[i])*(float64(v)-mean)*inv + float64(bias[i]))
	}
	return y
}

// GELU returns x · Φ(x), Φ the normal distribution.
func GELU(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(float64(v) / 2 * math.Erfc(-float64(v)/math.Sqrt2))
	}
	return y
}

// GELUTanh returns x · (1 + tanh(√(2/π)·(x + 0.044715·x³))) / 2.
func GELUTanh(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		a := float64(v)
		y[i] = float32(a * Sigmoid(2*math.Sqrt(2/math.Pi)*(a+0.044715*a*a*a)))
	}
	return y
}
