package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// fileGroups are weights as files have them, in Q8 or Q4.
func fileGroups(t testing.TB, w []float32, k int, f Format) Groups {
	t.Helper()
	codes, scales := GroupBytes(k, f)
	g := Groups{Codes: make([]byte, len(w)/k*codes), Scales: make([]byte, len(w)/k*scales)}
	if err := g.QuantiseRows(k, f, func(i int, row []float32) error { copy(row, w[i*k:]); return nil }); err != nil {
		t.Fatal(err)
	}
	return g
}

// filed is what a format is in files.
var filed = map[Format]Format{Q8: Q8, W8A8: Q8, Q4: Q4, W4A8: Q4}

// Packed from what files have, a matrix is byte for byte the one that Quantise makes, in each variant, into memory
// that was used before, and side by side, and the file's numbers are the matrix's.
func TestGroups(t *testing.T) {
	for _, shape := range [][2]int{{1, 32}, {31, 64}, {32, 96}, {33, 512}, {96, 160}, {100, 1024}} {
		n, k := shape[0], shape[1]
		w := floats(5, n*k)
		clear(w[len(w)/2/QGroup*QGroup:][:QGroup]) // a scale of zero
		for f, in := range filed {
			t.Run(fmt.Sprintf("%d/%dx%d", f, n, k), func(t *testing.T) {
				restore, _ := Use("generic")
				want, err := Packer{}.Quantise(n, k, f, func(i int, row []float32) error { copy(row, w[i*k:]); return nil })
				restore()
				if err != nil {
					t.Fatal(err)
				}
				g, row, decoded := fileGroups(t, w, k, in), make([]float32, k), make([]float32, n*k)
				if err := g.FloatsTo(decoded, k, in); err != nil {
					t.Fatal(err)
				}
				for i := range n {
					if want.DecodedRow(row, i); !sameBits(row, decoded[i*k:][:k]) {
						t.Fatalf("row %d has other numbers", i)
					}
				}
				eachVariant(t, func(t *testing.T) {
					space := NewSpace(want.Bytes())
					for i := range space.all {
						space.all[i] = 0xff
					}
					cc, sc := GroupBytes(k, in)
					head, rest := Groups{g.Codes[:n/2*cc], g.Scales[:n/2*sc]}, Groups{g.Codes[n/2*cc:], g.Scales[n/2*sc:]}
					got, err := Packer{Space: space, Run: sideBySide}.Groups(k, f, head, rest)
					if err != nil || !bytes.Equal(got.codes, want.codes) || !slices.Equal(got.steps, want.steps) || got.quantised() != f || got.N != n {
						t.Errorf("differs from what Quantise makes; %v", err)
					}
				})
			})
		}
	}
}

// Codes that Quantise does not make, as those of other programs, give the numbers that the file says.
func TestOtherGroups(t *testing.T) {
	const n, k = 40, 256
	for f, in := range filed {
		cc, sc := GroupBytes(k, in)
		g := Groups{Codes: randomBytes(3, n*cc, 256), Scales: make([]byte, n*sc)}
		for i := range n * sc / 2 {
			binary.LittleEndian.PutUint16(g.Scales[2*i:], bf16Bits(float32(math.Ldexp(1+float64(i%128)/128, i%9-4)))|uint16(i%2)<<15)
		}
		g.Codes[0], g.Scales[0], g.Scales[1] = 0, 0, 0x80 // the least code, and minus zero
		want, row := make([]float32, n*k), make([]float32, k)
		if err := g.FloatsTo(want, k, in); err != nil {
			t.Fatal(err)
		}
		m, err := Packer{}.Groups(k, f, g)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if m.DecodedRow(row, i); !sameBits(row, want[i*k:][:k]) {
				t.Fatalf("format %d: row %d has other numbers", f, i)
			}
		}
		x, dst := floats(9, 3*k), make([]float32, 3*n)
		MatMul(dst, n, x, k, 3, m, 0, m.Panels())
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, 3*n)
			if MatMul(got, n, x, k, 3, m, 0, m.Panels()); !sameBits(got, dst) {
				t.Errorf("format %d: products differ", f)
			}
		})
	}
}

// What no kernel multiplies exactly is refused by its place.
func TestGroupScaleRefusals(t *testing.T) {
	for _, scale := range []float32{float32(math.Inf(1)), float32(math.NaN()), 0x1p-91, -0x1p99} {
		g := fileGroups(t, floats(1, 40*64), 64, Q8)
		binary.LittleEndian.PutUint16(g.Scales[35*4+2:], uint16(math.Float32bits(scale)>>16))
		for _, f := range []Format{Q8, W8A8} {
			if _, err := (Packer{}).Groups(64, f, g); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("output 35: input 32: a scale is %v", scale)) {
				t.Errorf("%v", err)
			}
		}
		if err := g.FloatsTo(make([]float32, 40*64), 64, Q8); err == nil || !strings.Contains(err.Error(), "output 35: a scale is") {
			t.Errorf("%v", err)
		}
	}
}

// BenchmarkGroups packs an expert's matrices from a file's codes.
func BenchmarkGroups(b *testing.B) {
	const n, k = 1536, 2048
	w := floats(1, n*k)
	for f, in := range filed {
		g := fileGroups(b, w, k, in)
		b.Run(fmt.Sprintf("format=%d", f), func(b *testing.B) {
			space := NewSpace(PackedBytes(n, k, f))
			b.SetBytes(int64(len(g.Codes) + len(g.Scales)))
			for b.Loop() {
				space.Reset()
				if _, err := (Packer{Space: space}).Groups(k, f, g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("mxfp4", func(b *testing.B) {
		blocks, scales, space := randomBytes(1, n*k/2, 256), randomBytes(2, n*k/MXBlock, 250), NewSpace(PackedBytes(n, k, MXFP4))
		b.SetBytes(int64(len(blocks) + len(scales)))
		for b.Loop() {
			space.Reset()
			Packer{Space: space}.MXFP4(blocks, scales, n, k)
		}
	})
	b.Run("copy", func(b *testing.B) {
		src, dst := make([]byte, n*k), make([]byte, n*k)
		b.SetBytes(n * k)
		for b.Loop() {
			copy(dst, src)
		}
	})
}
