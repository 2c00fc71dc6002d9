package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// quantisedMatrix is a random matrix and its weights by package ref.
func quantisedMatrix(seed uint64, n, k int, f Format, most int) (*Matrix, []float32) {
	w := floats(seed, n*k)
	m, err := Packer{}.Quantise(n, k, f, func(i int, row []float32) error { copy(row, w[i*k:]); return nil })
	if err != nil {
		panic(err)
	}
	return m, ref.Grouped(w, QGroup, most)
}

func q8Matrix(seed uint64, n, k int) (*Matrix, []float32) {
	return quantisedMatrix(seed, n, k, Q8, 127)
}
func w8a8Matrix(seed uint64, n, k int) (*Matrix, []float32) {
	return quantisedMatrix(seed, n, k, W8A8, 127)
}
func w4a8Matrix(seed uint64, n, k int) (*Matrix, []float32) {
	return quantisedMatrix(seed, n, k, W4A8, 7)
}
func q4Matrix(seed uint64, n, k int) (*Matrix, []float32) { return quantisedMatrix(seed, n, k, Q4, 7) }

// Every code with scales of all sizes.
func TestEveryQ(t *testing.T) {
	for f, least := range map[Format]int{Q8: -127, Q4: -8} {
		for _, step := range []float32{0x1p-79, 0x1.82p-20, 1, 0x1.fep90} {
			n := 127 - least + 1
			if f == Q4 {
				n = 16
			}
			want := make([]float32, n)
			m, err := Packer{}.Quantise(n, QGroup, f, func(i int, w []float32) error {
				clear(w)
				w[0] = float32(least+i) * step
				w[1] = float32(least) * step // gives the scale
				want[i] = w[0]
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				want[i] += 0 // a chain that begins at zero has no minus zero
			}
			every(t, m, want)
		}
	}
}

// A row that has been quantised is within half a step of what it was, and stays as it is
// when it is quantised again.
func TestQuantiseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]Format{Q8, Q4, W8A8, W4A8}).Draw(t, "format")
		k := QGroup * rapid.IntRange(1, 4).Draw(t, "groups")
		w := rapid.SliceOfN(rapid.Float32Range(-0x1p100, 0x1p100), k, k).Draw(t, "weights")
		quantised := func(w []float32) []float32 {
			m, err := Packer{}.Quantise(1, k, f, func(_ int, row []float32) error { copy(row, w); return nil })
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, k)
			m.DecodedRow(got, 0)
			return got
		}
		once := quantised(w)
		for from := 0; from < k; from += QGroup {
			top := 0.0
			for _, v := range w[from : from+QGroup] {
				top = max(top, math.Abs(float64(v)))
			}
			// Half a step, and a whole one where Q4 has no 8; scales are of eight bits.
			bound := top/127/2*(1+0x1p-7) + smallestQ
			if f.nibbles() {
				bound = top/8*(1+0x1p-6) + smallestQ
			}
			for i := from; i < from+QGroup; i++ {
				if d := math.Abs(float64(once[i]) - float64(w[i])); d > bound {
					t.Fatalf("%v became %v, further than %v", w[i], once[i], bound)
				}
			}
		}
		if !f.nibbles() && !sameBits(quantised(once), once) {
			t.Fatal("quantised again, it changed")
		}
	})
}

func TestQuantiseRefusals(t *testing.T) {
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), -0x1.1p100} {
		_, err := Packer{}.Quantise(2, 2*QGroup, Q4, func(i int, w []float32) error {
			clear(w)
			if i == 1 {
				w[QGroup+1] = v
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("output 1: input 32: a weight is %v", v)) {
			t.Errorf("%v: %v", v, err)
		}
	}
	if err := CheckGroups(48); err == nil || !strings.Contains(err.Error(), "48 inputs are no multiple of 32") {
		t.Error(err)
	}
}

// Sums that end as zeros of either sign, scales of both and rows of all sizes have the same bits in each variant.
func TestQuantisedExtremes(t *testing.T) {
	const n = 2*PanelWidth + 5
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]Format{Q8, Q4}).Draw(t, "format")
		rows, k := rapid.IntRange(1, 13).Draw(t, "rows"), QGroup*rapid.IntRange(1, 3).Draw(t, "groups")
		sizes := rapid.SampledFrom([]float32{0, 0x1p-140, 0x1p-75, 0x1p-30, 1, -1, 0x1p60})
		w, x := floats(rapid.Uint64().Draw(t, "weights"), n*k), floats(rapid.Uint64().Draw(t, "seed"), rows*k)
		for i := range n * k / QGroup {
			Scale(w[i*QGroup:][:QGroup], sizes.Draw(t, "scale"))
		}
		for i := range x {
			if rapid.Bool().Draw(t, "odd") {
				x[i] *= sizes.Draw(t, "size")
			}
		}
		m, err := Packer{}.Quantise(n, k, f, func(i int, row []float32) error { copy(row, w[i*k:]); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if name := otherBits(m, x, rows); name != "" {
			t.Fatalf("%s differs from %s", name, Available()[0])
		}
	})
}

// otherBits names a variant whose products have other bits than those of the first one.
func otherBits(m *Matrix, x []float32, rows int) string {
	var want []float32
	for _, name := range Available() {
		restore, _ := Use(name)
		got := make([]float32, rows*m.N)
		MatMul(got, m.N, x, m.K, rows, m, 0, m.Panels())
		restore()
		if want == nil {
			want = got
		} else if !sameBits(got, want) {
			return name
		}
	}
	return ""
}

// groupsOf are n rows of k inputs as files have them: the first code of each is first, the others are rest, and the scale of a
// group is what scale says.
func groupsOf(n, k int, f Format, first, rest byte, scale func(i, group int) float32) Groups {
	codes, scales := GroupBytes(k, f)
	g := Groups{Codes: bytes.Repeat([]byte{rest}, n*codes), Scales: make([]byte, n*scales)}
	for i := range n {
		g.Codes[i*codes] = first
		for group := range k / QGroup {
			binary.LittleEndian.PutUint16(g.Scales[i*scales+2*group:], uint16(math.Float32bits(scale(i, group))>>16))
		}
	}
	return g
}

// zeroCodes are a byte of codes of zero in files. One more makes the (first) code 1.
var zeroCodes = map[Format]byte{Q8: 0x80, Q4: 0x88}

// A product underflows to -0, and weights of zero with a negative scale, which are -0, keep that sign. Outputs are those of whole
// panels and of a last one that has a single output.
func TestMinusZero(t *testing.T) {
	for f, zero := range zeroCodes {
		m, err := Packer{}.Groups(QGroup, f, groupsOf(PanelWidth+1, QGroup, f, zero+1, zero, func(int, int) float32 { return -0x1p-75 }))
		if err != nil {
			t.Fatal(err)
		}
		x := filledWith(1, m.K)
		x[0] = 0x1p-80
		want := filledWith(float32(math.Copysign(0, -1)), m.N)
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, m.N)
			if MatMul(got, m.N, x, m.K, 1, m, 0, m.Panels()); !sameBits(got, want) {
				t.Errorf("format %d: %v", f, got)
			}
		})
	}
}

// Sums that end as zero have one sign in all variants, with the least and the largest scales of files and zeros, of both signs, and
// codes that are not zero where the scale is.
func TestQuantisedZeros(t *testing.T) {
	const n, k = PanelWidth + 7, 3 * QGroup
	minus := float32(math.Copysign(0, -1))
	scales := []float32{-0x1p-90, 0x1p-90, -0x1p98, 0x1p98, 0, minus}
	scale := func(i, group int) float32 { return scales[(i+group*(i/6))%len(scales)] }
	for f, zero := range zeroCodes {
		for _, codes := range [][2]byte{{zero + 1, zero}, {zero - 1, zero}, {zero + 1, zero - 0x11}, {zero - 1, zero + 0x11}} {
			m, err := Packer{}.Groups(k, f, groupsOf(n, k, f, codes[0], codes[1], scale))
			if err != nil {
				t.Fatal(err)
			}
			for rows := 1; rows <= 13; rows++ {
				x := make([]float32, rows*k)
				for i := range x {
					switch {
					case i%k == 0:
						x[i] = 0x1p-140 // it underflows with the least scales
					case i/k%2 == 1:
						x[i] = minus
					}
				}
				if name := otherBits(m, x, rows); name != "" {
					t.Errorf("format %d, codes %x, %d rows: %s differs from %s", f, codes, rows, name, Available()[0])
				}
			}
		}
	}
}

// The scales that Quantise makes are among those of files, on whose bounds kernels rest.
func TestQuantiseScales(t *testing.T) {
	for _, f := range []Format{Q8, Q4, W8A8, W4A8} {
		for _, top := range []float32{largestQ, -largestQ, smallestQ, -smallestQ} {
			if err := checkScale(stepOf(top, f)); err != nil || stepOf(top, f) == 0 {
				t.Errorf("format %d: of %v a scale of %v: %v", f, top, widened(stepOf(top, f)), err)
			}
		}
	}
}
