package cpu

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// eachVariant runs f with every variant, and with AMX emulated where the processor lacks that alone. One that the machine should have but
// that is missing is an error, unless the environment switched it off.
func eachVariant(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for v, name := range variantNames {
		if !supported(v) || usable(v, os.Getenv) != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			restore, err := Use(name)
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			f(t)
		})
	}
	if restore, ok := useEmulated(); ok {
		defer restore()
		t.Run("amx emulated", f)
	}
}

func floats(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// sameBits treats all NaN as one.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || (x != x && y != y)
	})
}

func near(t *testing.T, what string, got, want []float32, atol, rtol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if !(math.Abs(g-w) <= atol+math.Abs(w)*rtol) {
			t.Fatalf("%s: [%d] = %v, want %v", what, i, g, w)
		}
	}
}

// bytesOf is x as bf16, which rounds it in place too.
func bytesOf(x []float32) []byte {
	b := make([]byte, 2*len(x))
	ToBF16(b, x)
	FromBF16(x, b)
	return b
}
