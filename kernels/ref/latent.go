package ref

import "math"

// AttendLatent returns out (H, rank) for the queries q (H, W) of one position
// over cached lines (P, W) that all heads share: the whole line is the key, its
// first rank elements are the value.
func AttendLatent(q, lines []float32, h, rank, w int, scale float32) []float32 {
	values := make([]float32, 0, len(lines)/w*rank)
	for at := 0; at < len(lines); at += w {
		values = append(values, lines[at:at+rank]...)
	}
	out := make([]float32, h*rank)
	scores := make([]float64, len(lines)/w)
	for i := range h {
		for p := range scores {
			scores[p] = dot(q[i*w:(i+1)*w], lines[p*w:(p+1)*w]) * float64(scale)
		}
		mix(out[i*rank:(i+1)*rank], Softmax(scores), values)
	}
	return out
}

// RotatePairs returns x rotated by angles (len(x)/2), pairing x[2i] with x[2i+1].
func RotatePairs(x, angles []float32) []float32 {
	y := make([]float32, len(x))
	for i := range len(x) / 2 {
		sin, cos := math.Sincos(float64(angles[i]))
		a, b := float64(x[2*i]), float64(x[2*i+1])
		y[2*i], y[2*i+1] = float32(a*cos-b*sin), float32(b*cos+a*sin)
	}
	return y
}
