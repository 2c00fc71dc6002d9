//go:build emulate

package emulate

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Logits are the CPU's bits: one row or many, experts and columns that fill blocks or not.
func TestRouteLogits(t *testing.T) {
	for _, n := range []struct{ rows, e, k int }{{1, 8, 64}, {5, 33, 200}, {16, 32, 128}, {37, 70, 330}} {
		for _, format := range []string{"bf16", "f32"} {
			t.Run(fmt.Sprint(format, n), func(t *testing.T) { testLogits(open(t), format, n.rows, n.e, n.k) })
		}
	}
}

func testLogits(d *device, format string, rows, e, k int) {
	x, w, bias := d.noise(rows*k), rounded(d.noise(e*k)), copied(d, d.noise(e))
	want := make([]float32, rows*e)
	packed := cpu.PackF32(w, e, k)
	cpu.MatMul(want, e, x, k, rows, packed, 0, packed.Panels())
	kp := up(k, 64)
	wide, shared := any(copied(d, filled(w, k, kp))), 4*(32*(4*64+16)+16*4*64)
	if format == "bf16" {
		wide, shared = asBF16(d, filled(w, k, kp)), 4*(32*(2*64+16)+16*4*64)
	}
	got, in := room[float32](d, rows*e), copied(d, filled(x, k, kp))
	run := func(bias any) {
		d.run("route_logits_"+format, [3]uint32{uint32(up(e, 32) / 32), uint32(up(rows, 16) / 16), 1}, line(128), shared,
			got, in, wide, bias, rows, e, kp)
	}
	run(nil)
	same(d.t, "logits", got, want)
	for r := range rows {
		cpu.Add(want[r*e:(r+1)*e], bias)
	}
	run(bias)
	same(d.t, "logits with a bias", got, want)
}

// filled are rows of k numbers, zeros behind them up to kp.
func filled(x []float32, k, kp int) []float32 {
	y := make([]float32, len(x)/k*kp)
	for i := range len(x) / k {
		copy(y[i*kp:], x[i*k:(i+1)*k])
	}
	return y
}

func asBF16(d *device, x []float32) []uint16 {
	y := room[uint16](d, len(x))
	for i, v := range x {
		y[i] = bf16(v)
	}
	return y
}

// A softmax over more experts than a warp has lanes gives the CPU's bits.
func TestRouteSoftmaxBits(t *testing.T) {
	const rows, e, k = 5, 150, 9
	d := open(t)
	logits := copied(d, d.noise(rows*e))
	expert, weight := room[int32](d, rows*k), room[float32](d, rows*k)
	d.run("route", line(rows), line(32), 8*e, expert, weight, logits, nil, e, k, 0, false, 0, 0, false, float32(0), float32(0))
	ids, want := make([]int32, k), make([]float32, k)
	for r := range rows {
		shares := append([]float32(nil), logits[r*e:(r+1)*e]...)
		cpu.Softmax(shares)
		cpu.TopK(ids, want, shares)
		same(t, fmt.Sprintf("weights of row %d", r), weight[r*k:(r+1)*k], want)
	}
}
