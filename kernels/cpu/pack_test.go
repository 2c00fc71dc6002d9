package cpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// sideBySide runs pieces at once, in no order.
func sideBySide(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// shapes are (outputs, inputs): whole panels and blocks of kernels, and what does not fill them.
var packShapes = [][2]int{{1, 1}, {32, 16}, {32, 32}, {32, 33}, {31, 64}, {33, 65}, {64, 15}, {96, 96}, {100, 131}, {160, 512}}

// Each variant packs the bits that plain Go does, into memory that was used before, and side by side; what no
// output fills is zero.
func TestPack(t *testing.T) {
	for _, shape := range packShapes {
		n, k := shape[0], shape[1]
		src := randomBytes(7, 4*n*k+1, 256)[1:] // files do not align rows
		for kind, pack := range map[string]func(p Packer) *Matrix{
			"bf16":  func(p Packer) *Matrix { return p.BF16(k, src[:2*n*k]) },
			"pairs": func(p Packer) *Matrix { return p.Pairs(k, src[:2*n*k]) },
			"f32":   func(p Packer) *Matrix { return p.F32(floats(3, n*k), n, k) },
		} {
			t.Run(fmt.Sprintf("%s/%dx%d", kind, n, k), func(t *testing.T) {
				restore, _ := Use("generic")
				want := pack(Packer{})
				restore()
				for j := range want.Panels() * PanelWidth {
					at := packedAt(want, j)
					if j < n && at(0) != first(kind, src, floats(3, n*k), j, k) || j >= n && at(0) != 0 {
						t.Fatalf("output %d begins with %x", j, at(0))
					}
				}
				eachVariant(t, func(t *testing.T) {
					space := NewSpace(want.Bytes())
					for i := range space.all {
						space.all[i] = 0xff
					}
					got := pack(Packer{Space: space, Run: sideBySide})
					if !bytes.Equal(asBytes(got.bf), asBytes(want.bf)) || !bytes.Equal(asBytes(got.f32), asBytes(want.f32)) || got.Bytes() != want.Bytes() {
						t.Error("differs from plain Go")
					}
					if len(space.free) == len(space.all) {
						t.Error("it is not in the space")
					}
				})
			})
		}
	}
}

// packedAt reads output j of a matrix by input.
func packedAt(m *Matrix, j int) func(k int) uint32 {
	p, j := j/PanelWidth, j%PanelWidth
	return func(k int) uint32 {
		switch {
		case m.rounds:
			return uint32(m.bf[p*pairsOf(m.K)*2*PanelWidth+pairAt(k, j)])
		case m.bf != nil:
			return uint32(m.bf[p*m.K*PanelWidth+interleaved(k*PanelWidth+j)])
		}
		return uint32(asBytes(m.f32[p*m.K*PanelWidth+k*PanelWidth+j:])[3])
	}
}

// first is input 0 of output j before it is packed, as packedAt reads it.
func first(kind string, src []byte, numbers []float32, j, k int) uint32 {
	if kind == "f32" {
		return uint32(asBytes(numbers[j*k:])[3])
	}
	return uint32(src[2*j*k]) | uint32(src[2*j*k+1])<<8
}

// Each variant quantises to the bits of plain Go: largest weights of both signs, ties, and groups of zeros.
func TestQuantiseVariants(t *testing.T) {
	for _, shape := range [][2]int{{1, 32}, {17, 64}, {32, 96}, {40, 128}, {64, 2048}} {
		n, k := shape[0], shape[1]
		w := floats(uint64(n), n*k)
		for i := range w {
			switch {
			case i/QGroup%5 == 1:
				w[i] = 0
			case i%7 == 0:
				w[i] = float32(i%3-1) * 2 // the largest of some groups, with either sign first
			case i%11 == 0:
				w[i] = 2.0 / 127 * 2.5
			}
		}
		for _, f := range []Format{Q8, Q4, W8A8, W4A8} {
			quantised := func(p Packer) *Matrix {
				m, err := p.Quantise(n, k, f, func(i int, row []float32) error { copy(row, w[i*k:]); return nil })
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			restore, _ := Use("generic")
			want := quantised(Packer{})
			restore()
			eachVariant(t, func(t *testing.T) {
				space := NewSpace(want.Bytes())
				for i := range space.all {
					space.all[i] = 0xff
				}
				got := quantised(Packer{Space: space, Run: sideBySide})
				if !bytes.Equal(got.codes, want.codes) || !slices.Equal(got.steps, want.steps) {
					t.Errorf("(%d, %d) in format %d differs from plain Go", n, k, f)
				}
			})
		}
	}
}

// Rows of several tensors, which lie anywhere, make one matrix.
func TestPackParts(t *testing.T) {
	const k = 96
	all := randomBytes(2, 2*k*100, 256)
	eachVariant(t, func(t *testing.T) {
		for _, at := range []int{32, 40, 64} {
			a, b := all[:2*k*at], slices.Clone(all[2*k*at:])
			if !slices.Equal(StackBF16(k, a, b).bf, StackBF16(k, all).bf) || !slices.Equal(Packer{}.Pairs(k, a, b).bf, Packer{}.Pairs(k, all).bf) {
				t.Errorf("cut at %d: differs", at)
			}
		}
	})
}

// A space that is full leaves matrices to Go's heap, and one that is reset has room again.
// Large memory may begin and end anywhere among what lies beside it.
func TestLargeSpace(t *testing.T) {
	var beside [][]byte
	for i := range 4 {
		beside = append(beside, make([]byte, 100<<10))
		n := hugePage + i*300_000
		if s := NewSpace(int64(n)); len(take[byte](s, n)) != n || int(s.Bytes()) < n {
			t.Errorf("%d bytes: %d", n, s.Bytes())
		}
	}
	runtime.KeepAlive(beside)
}

func TestSpace(t *testing.T) {
	s := NewSpace(4096)
	if s.Bytes() < 4096 || s.Bytes() > 8192 {
		t.Errorf("it takes %d bytes", s.Bytes())
	}
	for range 2 {
		var last []byte
		for n := rand.N(64); len(s.free) > 0; n = rand.N(1000) {
			if last = take[byte](s, n+1); uintptr(unsafe.Pointer(unsafe.SliceData(last)))%cacheLine != 0 {
				t.Fatal("it is not aligned")
			}
			last[n] = 1
		}
		if more := take[float32](s, 1<<20); len(more) != 1<<20 || uintptr(unsafe.Pointer(unsafe.SliceData(more)))%cacheLine != 0 {
			t.Errorf("%d values beyond it", len(more))
		}
		s.Reset()
	}
}

// BenchmarkPackAgain packs gate and up of an expert of Qwen3-30B-A3B into memory that was used before, of rows that no
// cache has. The best turn is told beside the mean, for machines that others use, too.
func BenchmarkPackAgain(b *testing.B) {
	const n, k, apart = 1536, 2048, 16
	src := randomBytes(1, apart*2*n*k, 256)
	for kind, pack := range map[string]func(p Packer, src []byte){
		"bf16":  func(p Packer, src []byte) { p.BF16(k, src) },
		"pairs": func(p Packer, src []byte) { p.Pairs(k, src) },
		"copy":  func(p Packer, src []byte) { copy(p.Space.all, src) },
	} {
		b.Run("kind="+kind, func(b *testing.B) {
			benchVariants(b, func(b *testing.B) {
				p, best := Packer{Space: NewSpace(2 * n * k)}, time.Hour
				b.SetBytes(2 * n * k)
				for i := 0; b.Loop(); i++ {
					begin := time.Now()
					p.Space.Reset()
					pack(p, src[i%apart*2*n*k:][:2*n*k])
					best = min(best, time.Since(begin))
				}
				b.ReportMetric(2*n*k/float64(best.Nanoseconds()), "best-GB/s")
			})
		})
	}
}

// pairAt returns the place in a panel of pairs of input k and output j.
func pairAt(k, j int) int { return k/2*2*PanelWidth + 2*j + k%2 }
