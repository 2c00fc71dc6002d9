package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// elementAt is where the list of kernels, section "Memory", has a row and column of a matrix whose rows
// have kp columns; of two tensors of half the rows each if it is gated. Within a tile it is where the PTX ISA has
// an operand with K major and a swizzle of 128 bytes ("Canonical Layouts", of 8 elements in 16 bytes).
func elementAt(row, column, n, kp int, gated bool) int {
	if half := n / 2; gated {
		row = row%half/8*16 + row%half%8 + row/half*8
	}
	const eightRows = 1024 // its stride dimension byte offset
	tile, row, column := row/64*(kp/64)+column/64, row%64, column%64
	return tile*tileBytes + swizzled(row%8*8*16+row/8*eightRows+column%8*2+column/8*16)
}

// swizzled is Swizzle<3, 4, 3> of the ISA: of an address bits 4 to 6 are exchanged by bits 7 to 9.
func swizzled(address int) int { return address ^ (address & 0b111_000_0000 >> 3) }

// All elements of a matrix are where kernels look for them, what is between them is zero, and tiles fill
// the place that the matrix has.
func TestTilesAreTheList(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		n, k, gated := 1+random.IntN(200), 1+random.IntN(1200), random.IntN(2) == 0
		p := matrix{n: n, k: k, format: tiled, refs: make([]model.Ref, 1)}
		data := make([]byte, 2*n*k)
		for i := range data {
			data[i] = byte(1 + random.IntN(255))
		}
		from := []rows{{data, n, 2 * k}}
		if gated {
			p.n, p.refs = 2*n, make([]model.Ref, 2)
			from = append(from, rows{slices.Clone(data), n, 2 * k})
			slices.Reverse(from[1].data)
		}
		var got []byte
		eachBand(from, p.rows(), 2*padded(k), func(band []byte) { got = append(got, band...) })
		if int64(len(got)) != p.bytes() {
			t.Fatalf("%d by %d: %d bytes in a place of %d", p.n, k, len(got), p.bytes())
		}
		for i := range p.n * k {
			at, of := elementAt(i/k, i%k, p.n, padded(k), gated), from[i/k/n].data[2*(i%(n*k)):]
			if binary.LittleEndian.Uint16(got[at:]) != binary.LittleEndian.Uint16(of) {
				t.Fatalf("%d by %d, gated %v: element %d is %x, not %x", p.n, k, gated, i, got[at:at+2], of[:2])
			}
			clear(got[at : at+2])
		}
		if i := slices.IndexFunc(got, func(b byte) bool { return b != 0 }); i >= 0 {
			t.Fatalf("%d by %d, gated %v: byte %d is no weight's and not zero", p.n, k, gated, i)
		}
	}
}

// Only types of bf16 have tiles.
func TestFormatFor(t *testing.T) {
	for dtype, f := range formatOf {
		for _, k := range []cuda.Kernels{"", cuda.Mma, cuda.Wgmma} {
			want := f
			if dtype == safetensors.BF16 && k == cuda.Wgmma {
				want = tiled
			}
			if got, ok := formatFor(dtype, k); got != want || !ok {
				t.Errorf("%v is format %d for %q, want %d", dtype, got, k, want)
			}
		}
	}
}

// A GPU that is no sm_90, and images without these kernels, are refused by name.
func TestWgmmaRefused(t *testing.T) {
	m, hopper := modeltest.Tiny(t), newGPU(t).Info()
	older := hopper
	older.Arch = cuda.Arch{Major: 8, Minor: 9}
	lacking := fake.Experts()
	maps.DeleteFunc(lacking, func(name string, _ fake.Kernel) bool { return strings.Contains(name, "wgmma") })
	for what, gpu := range map[string]fake.Settings{"an older GPU": {Info: older, Kernels: fake.Experts()}, "an older image": {Info: hopper, Kernels: lacking}} {
		d, err := open(m, fake.New(gpu), images, Settings{Memory: small, Parts: 2, Kernels: cuda.Wgmma}, tuning{rows: 8})
		var refused *cuda.KernelsError
		if !errors.As(err, &refused) || refused.Kernels != cuda.Wgmma {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			d.Close()
		}
	}
}

// Blocks take turns: a grid has no more of them than run at a time.
func TestTurns(t *testing.T) {
	v := variant{cut: cutsFor(tiled, 1)[0], most: 8}
	for shares, want := range map[int]uint32{3: 3, 8: 8, 100: 8} {
		if got := v.grid(shares); got != [3]uint32{want, 1, 1} {
			t.Errorf("%d shares are %v blocks, want %d", shares, got, want)
		}
	}
}

// What one core makes of weights in memory.
func BenchmarkTiles(b *testing.B) {
	for _, k := range []int{768, 2048, 4096, 14336} {
		b.Run(fmt.Sprintf("columns=%d", k), func(b *testing.B) {
			n := 64 << 20 / (2 * k) / 64 * 64
			from := []rows{{bytes.Repeat([]byte{1}, 2*n*k), n, 2 * k}}
			to := make([]byte, tileFeatures*2*k)
			b.SetBytes(int64(2 * n * k))
			for b.Loop() {
				eachBand(from, n, 2*k, func(band []byte) { copy(to, band) })
			}
		})
	}
}
