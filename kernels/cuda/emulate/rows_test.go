//go:build emulate

package emulate

import (
	"fmt"
	"math"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

// Norms of whole rows and of each head, in place too.
func TestNorms(t *testing.T) {
	d := open(t)
	const rows, n, units, ld = 3, 300, 2, 640
	x, weight, bias := copied(d, d.noise(rows*ld)), copied(d, d.noise(n)), copied(d, d.noise(n))
	for kernel, threads := range map[string]int{"rms_norm": 256, "head_norm": 32} {
		got := copied(d, x)
		d.run(kernel, line(rows*units), line(threads), 0, got, got, weight, n, units, ld, ld, float32(1e-5))
		want := append([]float32(nil), x...)
		for u := range rows * units {
			at := u/units*ld + u%units*n
			copy(want[at:], ref.RMSNorm(x[at:at+n], weight, 1e-5))
		}
		near(t, kernel, got, want, 1e-6)
	}
	got, plain := room[float32](d, rows*n), room[float32](d, n)
	d.run("layer_norm", line(rows), line(256), 0, got, x, weight, bias, n, ld, n, float32(1e-5))
	d.run("head_norm", line(1), line(32), 0, plain, x, nil, n, 1, ld, n, float32(0))
	for r := range rows {
		near(t, "layer_norm", got[r*n:(r+1)*n], ref.LayerNorm(x[r*ld:r*ld+n], weight, bias, 1e-5), 1e-6)
	}
	near(t, "without a weight", plain, ref.RMSNorm(x[:n], ones(n), 0), 1e-6)
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// Heads turn by their rows' angles, and what is beyond dim stays.
func TestRope(t *testing.T) {
	d := open(t)
	const rows, heads, c, dim = 3, 2, 80, 72
	angles := d.noise(4 * dim / 2)
	cos, sin := room[float32](d, len(angles)), room[float32](d, len(angles))
	for i, a := range angles {
		cos[i], sin[i] = float32(math.Cos(float64(a))), float32(math.Sin(float64(a)))
	}
	of := copied(d, []uint32{3, 0, 2})
	for pairs, rotate := range []func(x, angles []float32) []float32{ref.Rotate, ref.RotatePairs} {
		x := copied(d, d.noise(rows*heads*c))
		want := append([]float32(nil), x...)
		for i := range rows * heads {
			copy(want[i*c:], rotate(want[i*c:i*c+dim], angles[of[i/heads]*dim/2:][:dim/2]))
		}
		d.run("rope", [3]uint32{heads, rows, 1}, line(32), 0, x, cos, sin, of, heads*c, c, dim, pairs)
		near(t, fmt.Sprintf("pairs %d", pairs), x, want, 1e-6)
	}
}

func TestSmallSteps(t *testing.T) {
	d := open(t)
	const rows, n = 3, 300
	x, by := d.noise(rows*n), copied(d, d.noise(rows))
	activated, tanh := copied(d, x), copied(d, x)
	d.run("activate_rows", line(4), line(256), 0, activated, rows*n, 2)
	d.run("activate_rows", line(4), line(256), 0, tanh, rows*n, 3)
	near(t, "GELU", activated, ref.GELU(x), 1e-6)
	near(t, "GELU by tanh", tanh, ref.GELUTanh(x), 1e-6)
	added, gated, clipped, scaled := copied(d, x), copied(d, x), copied(d, x), copied(d, x)
	d.run("add_rows", line(4), line(256), 0, added, copied(d, x), rows*n)
	d.run("gate_rows", line(rows), line(128), 0, gated, by, n)
	d.run("scale_rows", line(rows), line(128), 0, clipped, nil, n, n, float32(0.5))
	d.run("scale_rows", line(rows), line(128), 0, scaled, by, n, n, float32(0))
	for i, v := range x {
		g := float32(float64(v) * ref.Sigmoid(float64(by[i/n])))
		if added[i] != v+v || math.Abs(float64(gated[i]-g)) > 1e-6 || clipped[i] != min(max(v, -0.5), 0.5) || scaled[i] != v*by[i/n] {
			t.Fatalf("%v became %v, %v, %v, %v", v, added[i], gated[i], clipped[i], scaled[i])
		}
	}
	first, at := copied(d, []uint32{0, 2, 3}), copied(d, []uint32{1, 2, 0}) // two rows, of two slots and of one
	for rounded, round := range []func(float32) float32{func(v float32) float32 { return v }, func(v float32) float32 { return float(bf16(v)) }} {
		sums := room[float32](d, 2*n)
		d.run("sum_slots", [3]uint32{2, 2, 1}, line(256), 0, sums, copied(d, x), first, at, n, rounded)
		for i := range n {
			if a, b := round(x[n+i])+round(x[2*n+i]), round(x[i]); sums[i] != a || sums[n+i] != b {
				t.Fatalf("rounded %d: column %d has the sums %v and %v, want %v and %v", rounded, i, sums[i], sums[n+i], a, b)
			}
		}
	}
}
