//go:build emulate

package emulate

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

// format is how a matrix holds its weights; see ../src/README.md.
type format string

// tiled is bf16 for wgmma.
const plain, fp8, mxfp4, tiled format = "bf16", "fp8", "mxfp4", "wgmma"

// pieceBytes are those of 64 columns of a row.
func (of format) pieceBytes() int { return map[format]int{plain: 128, fp8: 64, mxfp4: 32}[of] }

// variants are its kernels' cuts.
func (of format) variants() []variant {
	if of == tiled {
		return []variant{{8, 64, 160}, {32, 128, 288}, {128, 256, 384}}
	}
	return variants
}

// infix is what a kernel's name has of it.
func (of format) infix() string {
	if of == plain {
		return ""
	}
	return "_" + string(of)
}

// matrix is any weights (n, k), and the address of them as kernels want them.
func (d *device) matrix(of format, n, k int) ([]float32, uint64) {
	switch of {
	case fp8:
		codes, factors := make([]byte, n*k), make([]float32, n*up(k, 128)/128)
		for i := range codes {
			codes[i] = byte(d.random.IntN(127) + 128*d.random.IntN(2))
		}
		for i := range factors {
			factors[i] = (1 + d.random.Float32()) / 256
		}
		return d.fp8(codes, factors, n, k)
	case mxfp4:
		blocks, scales := make([]byte, n*k/2), make([]byte, n*k/32)
		for i := range blocks {
			blocks[i] = byte(d.random.IntN(256))
		}
		for i := range scales {
			scales[i] = byte(123 + d.random.IntN(5))
		}
		return d.mxfp4(blocks, scales, n, k)
	case tiled:
		w, _ := d.matrix(plain, n, k)
		return w, d.tiles(w, n, k, false)
	}
	w, kp := d.noise(n*k), up(k, 64)
	m := room[uint16](d, n*kp)
	clear(m)
	for i, v := range w {
		m[i/k*kp+i%k] = bf16(v)
		w[i] = float(m[i/k*kp+i%k])
	}
	return w, Address(m)
}

// fp8 takes codes (n, k) and factors (n, k/128 rounded up).
func (d *device) fp8(codes []byte, factors []float32, n, k int) (w []float32, at uint64) {
	kp, width := up(k, 64), up(k, 128)/128
	m := room[byte](d, n*kp+4*n*width)
	clear(m)
	turned := make([]float32, n*width)
	for i := range n * width {
		turned[i%width*n+i/width] = factors[i]
	}
	for i, c := range codes {
		m[i/k*kp+i%k] = c
		w = append(w, float32(ref.FP8(c)*float64(factors[i/k*width+i%k/128])))
	}
	for i, f := range turned {
		for b := range 4 {
			m[n*kp+4*i+b] = byte(math.Float32bits(f) >> (8 * b))
		}
	}
	return w, Address(m)
}

// mxfp4 takes blocks (n, k/2) and scales (n, k/32).
func (d *device) mxfp4(blocks, scales []byte, n, k int) (w []float32, at uint64) {
	kp, width := up(k, 64), k/32
	m := room[byte](d, n*kp/2+n*kp/32)
	clear(m)
	for i, b := range blocks {
		m[i/(k/2)*kp/2+i%(k/2)] = b
	}
	for i, s := range scales {
		m[n*kp/2+i%width*n+i/width] = s
	}
	return ref.MXFP4(blocks, scales), Address(m)
}

// Quantised matrices give what the reference does with the same numbers: columns that fill pieces
// and blocks of scales, or not.
func TestQuantised(t *testing.T) {
	for _, of := range []struct {
		format
		k []int
	}{{fp8, []int{64, 150, 330}}, {mxfp4, []int{32, 224, 320}}} {
		for _, v := range variants {
			for parts := 1; parts <= 2; parts++ {
				for _, k := range of.k {
					testProject(open(t), of.format, v, parts, k)
				}
			}
		}
	}
}

// The same for experts, with either activation; and a row's bits are the same whatever is beside it.
func TestQuantisedExperts(t *testing.T) {
	for _, of := range []struct {
		format
		f, hidden int
	}{{fp8, 40, 200}, {mxfp4, 96, 160}} {
		for parts := 1; parts <= 2; parts++ {
			for i, v := range variants {
				d := open(t)
				testExperts(d, d.network(of.format, 3, of.f, of.hidden, (i+parts)%2), v, parts, []int{3, 0, 10})
			}
			d := open(t)
			testBatch(d, d.network(of.format, 1, of.f, of.hidden, 0), parts, 7)
		}
	}
}

// Every code, with large and small scales, is the number that it stands for: rows that are one in one
// column give that column's weights.
func TestWidened(t *testing.T) {
	d := open(t)
	var codes []byte
	for c := range 256 {
		if c%128 == 127 { // not a number
			c--
		}
		codes = append(codes, byte(c))
	}
	w, at := d.fp8(codes, []float32{1, 1, 0.7, 1.5, 1e-30, 3e30, 1, -2}, 8, 32)
	testWidened(d, fp8, w, at, 8, 32)

	blocks := make([]byte, 0, 8*16)
	scales := []byte{0, 1, 2, 100, 127, 128, 200, 252}
	for range scales {
		for c := range 16 {
			blocks = append(blocks, byte(c|(15-c)<<4))
		}
	}
	w, at = d.mxfp4(blocks, scales, 8, 32)
	testWidened(d, mxfp4, w, at, 8, 32)
}

func testWidened(d *device, of format, w []float32, at uint64, n, k int) {
	x := make([]float32, k*k)
	for i := range k {
		x[i*k+i] = 1
	}
	out, v := room[float32](d, k*n), variants[1]
	tiles := v.tiles(d, []int{k})
	d.run(v.name("project"+of.infix(), 1), line(len(tiles)/4), line(v.threads), v.shared(of, 1),
		out, d.planes(of, 1, copied(d, x), nil, nil, k, k), tiles, copied(d, []uint64{at, 0}), nil, nil, n, 64, k+1, n, len(tiles)/4, false)
	for i := range w {
		if got := out[i%k*n+i/k]; got != w[i] {
			d.t.Errorf("%s: weight %d of row %d is %g, not %g", of, i%k, i/k, got, w[i])
		}
	}
}

// tiles is a matrix as wgmma wants it, from its description in ../src/README.md. The two halves of a gated
// one are its gate and its up.
func (d *device) tiles(w []float32, n, k int, gated bool) uint64 {
	rows, kp, half := up(n, 64), up(k, 64), n/2
	if gated {
		rows = 2 * up(half, 64)
	}
	m := room[uint16](d, rows*kp)
	clear(m)
	for i, v := range w {
		row, column := i/k, i%k
		if gated {
			row = row%half/8*16 + row%half%8 + row/half*8
		}
		tile := row/64*(kp/64) + column/64
		chunk := column%64/8 ^ row%8
		m[tile*4096+row%64*64+chunk*8+column%8] = bf16(v)
	}
	return Address(m)
}
