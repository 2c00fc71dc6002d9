package fake

import (
	"maps"
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/ref"
)

// Backbone returns the kernels of Experts, and those of attention.
func Backbone() map[string]Kernel {
	all := Experts()
	maps.Copy(all, attention())
	maps.Copy(all, latentAttention())
	all["rms_norm"], all["head_norm"], all["layer_norm"] = rmsNorm, rmsNorm, layerNorm
	all["add_rows"], all["gate_rows"], all["scale_rows"] = addRows, gateRows, scaleRows
	all["rope"], all["activate_rows"] = rope, activateRows
	return all
}

func floats(m *Memory, at uint64, n int) []float32 { return View[float32](m, cuda.Ptr(at), n) }

func number(arg uint64) float32 { return math.Float32frombits(uint32(arg)) }

func rmsNorm(m *Memory, l *cuda.Launch) {
	a := l.Args
	n, units := int(a[3]), int(a[4])
	weight := make([]float32, n)
	for i := range weight {
		weight[i] = 1
	}
	if a[2] != 0 {
		weight = floats(m, a[2], n)
	}
	for b := range int(l.Grid[0]) {
		row, at := b/units, uint64(4*(b%units*n))
		from, to := a[1]+uint64(4*row)*a[5]+at, a[0]+uint64(4*row)*a[6]+at
		copy(floats(m, to, n), ref.RMSNorm(floats(m, from, n), weight, number(a[7])))
	}
}

func layerNorm(m *Memory, l *cuda.Launch) {
	a := l.Args
	n := int(a[4])
	for r := range uint64(l.Grid[0]) {
		y := ref.LayerNorm(floats(m, a[1]+4*r*a[5], n), floats(m, a[2], n), floats(m, a[3], n), number(a[7]))
		copy(floats(m, a[0]+4*r*a[6], n), y)
	}
}

func sumSlots(m *Memory, l *cuda.Launch) {
	a := l.Args
	rows, d := int(l.Grid[0]), int(a[4])
	first := View[uint32](m, cuda.Ptr(a[2]), rows+1)
	for r := range rows {
		to := floats(m, a[0]+uint64(4*r*d), d)
		for slot := first[r]; slot < first[r+1]; slot++ {
			at := View[uint32](m, cuda.Ptr(a[3]), int(slot)+1)[slot]
			for i, v := range floats(m, a[1]+uint64(4*int(at)*d), d) {
				if a[5] != 0 {
					v = toFloat(toBF16(v))
				}
				if slot > first[r] {
					v += to[i]
				}
				to[i] = v
			}
		}
	}
}

func addRows(m *Memory, l *cuda.Launch) {
	n := int(l.Args[2])
	to := floats(m, l.Args[0], n)
	for i, v := range floats(m, l.Args[1], n) {
		to[i] += v
	}
}

func activateRows(m *Memory, l *cuda.Launch) {
	x := floats(m, l.Args[0], int(l.Args[1]))
	copy(x, activate(int(l.Args[2]), 0, x, 0))
}

func gateRows(m *Memory, l *cuda.Launch) {
	d := int(l.Args[2])
	for r := range int(l.Grid[0]) {
		by := ref.Sigmoid(float64(floats(m, l.Args[1], r+1)[r]))
		times(floats(m, l.Args[0]+uint64(4*r*d), d), float32(by))
	}
}

func scaleRows(m *Memory, l *cuda.Launch) {
	a := l.Args
	limit := number(a[4])
	for r := range int(l.Grid[0]) {
		row := floats(m, a[0]+uint64(4*r)*a[2], int(a[3]))
		if a[1] != 0 {
			times(row, floats(m, a[1], r+1)[r])
		}
		for i, v := range row {
			if limit > 0 {
				row[i] = min(max(v, -limit), limit)
			}
		}
	}
}

func rope(m *Memory, l *cuda.Launch) {
	a := l.Args
	c, half := int(a[5]), int(a[6])/2
	for r := range int(l.Grid[1]) {
		at := int(View[uint32](m, cuda.Ptr(a[3]), r+1)[r]) * half
		cos, sin := floats(m, a[1], at+half)[at:], floats(m, a[2], at+half)[at:]
		for h := range int(l.Grid[0]) {
			turn(floats(m, a[0]+uint64(4*r)*a[4]+uint64(4*h*c), 2*half), cos, sin, a[7] != 0)
		}
	}
}

// turn rotates a head, elements 2i and 2i+1 together if pairs says so.
func turn(head, cos, sin []float32, pairs bool) {
	half := len(head) / 2
	for i := range half {
		low, high := i, i+half
		if pairs {
			low, high = 2*i, 2*i+1
		}
		x, y := float64(head[low]), float64(head[high])
		head[low] = float32(x*float64(cos[i]) - y*float64(sin[i]))
		head[high] = float32(y*float64(cos[i]) + x*float64(sin[i]))
	}
}
