//go:build emulate

package emulate

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// device is memory and kernels for one test.
type device struct {
	t        *testing.T
	l        *Library
	random   *rand.Rand
	schedule uint32
}

func open(t *testing.T) *device {
	t.Helper()
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return &device{t: t, l: l, random: rand.New(rand.NewPCG(1, 2))}
}

// room is memory that is no number yet.
func room[T any](d *device, n int) []T {
	var one T
	b := d.l.Alloc(n * int(unsafe.Sizeof(one)))
	d.t.Cleanup(func() { d.l.Free(b) })
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func copied[T any](d *device, from []T) []T {
	to := room[T](d, len(from))
	copy(to, from)
	return to
}

// noise is numbers around zero.
func (d *device) noise(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(d.random.NormFloat64())
	}
	return x
}

// run launches a kernel, each time with threads in another order.
func (d *device) run(kernel string, grid, block [3]uint32, shared int, args ...any) {
	d.t.Helper()
	l := Launch{Kernel: kernel, Grid: grid, Block: block, Shared: uint32(shared), Schedule: d.schedule}
	d.schedule++
	for _, a := range args {
		l.Args = append(l.Args, argument(d.t, a))
	}
	if err := d.l.Run(&l); err != nil {
		d.t.Fatal(err)
	}
	if n := d.l.Conflicts(); n > 0 {
		d.t.Errorf("%s: %d loads of matrices wait for banks", kernel, n)
	}
}

func argument(t *testing.T, a any) uint64 {
	switch a := a.(type) {
	case int:
		return uint64(a)
	case bool:
		if a {
			return 1
		}
		return 0
	case float32:
		return uint64(math.Float32bits(a))
	case uint64:
		return a
	case []float32:
		return Address(a)
	case []uint16:
		return Address(a)
	case []uint32:
		return Address(a)
	case []int32:
		return Address(a)
	case []uint64:
		return Address(a)
	case nil:
		return 0
	}
	t.Fatalf("a parameter of type %T", a)
	return 0
}

func line(n int) [3]uint32 { return [3]uint32{uint32(n), 1, 1} }

func up(a, b int) int { return (a + b - 1) / b * b }

func bf16(x float32) uint16 {
	bits := math.Float32bits(x)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

func float(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// rounded is x as bf16 holds it.
func rounded(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float(bf16(v))
	}
	return y
}

// near wants got to be want, but for a share of the largest of want.
func near(t *testing.T, what string, got, want []float32, share float64) {
	t.Helper()
	largest, worst := 0.0, 0.0
	for i := range want {
		largest = max(largest, math.Abs(float64(want[i])))
		if diff := math.Abs(float64(got[i]) - float64(want[i])); diff > worst || diff != diff {
			worst = diff
		}
	}
	if !(worst <= share*largest) {
		t.Errorf("%s: differs by %g, of values up to %g", what, worst, largest)
	}
}

// same wants the same bits.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}
