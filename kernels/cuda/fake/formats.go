package fake

import (
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/ref"
)

type format func(m *Memory, at cuda.Ptr, n, kp int) []float32

// formats are those of gated experts, by what kernels' names have of them.
var formats = map[string]format{"": plain, "_fp8": fp8, "_mxfp4": mxfp4}

func plain(m *Memory, at cuda.Ptr, n, kp int) []float32 {
	w := make([]float32, n*kp)
	for i, v := range View[uint16](m, at, n*kp) {
		w[i] = toFloat(v)
	}
	return w
}

// fp8 is codes, and factors of 128 columns each, all rows' for the same columns together.
func fp8(m *Memory, at cuda.Ptr, n, kp int) []float32 {
	const block = 128
	w := make([]float32, n*kp)
	factors := View[float32](m, at+cuda.Ptr(n*kp), n*((kp+block-1)/block))
	for i, c := range m.Bytes(at, n*kp) {
		w[i] = float32(ref.FP8(c) * float64(factors[i%kp/block*n+i/kp]))
	}
	return w
}

// mxfp4 is codes, and powers of two for 32 columns each in the same order.
func mxfp4(m *Memory, at cuda.Ptr, n, kp int) []float32 {
	width := kp / 32
	scales := make([]byte, n*width)
	for i, e := range m.Bytes(at+cuda.Ptr(n*kp/2), n*width) {
		scales[i%n*width+i/n] = e
	}
	return ref.MXFP4(m.Bytes(at, n*kp/2), scales)
}

// tiles is bf16 as wgmma's kernels want it; of gatedTiles every 16 rows are 8 of the gate and 8 of the up.
func tiles(m *Memory, at cuda.Ptr, n, kp int) []float32 {
	return fromTiles(m, at, n, kp, (n+63)/64*64, func(row int) int { return row })
}

func gatedTiles(m *Memory, at cuda.Ptr, n, kp int) []float32 {
	f := n / 2
	return fromTiles(m, at, n, kp, 2*((f+63)/64*64), func(row int) int { return row%f/8*16 + row%f%8 + row/f*8 })
}

// fromTiles returns so many rows of all that tiles have, of which one lies where another one would.
func fromTiles(m *Memory, at cuda.Ptr, n, kp, all int, lies func(row int) int) []float32 {
	w, from := make([]float32, n*kp), View[uint16](m, at, all*kp)
	for i := range w {
		w[i] = toFloat(from[tileAt(lies(i/kp), i%kp, kp)])
	}
	return w
}

// tileAt returns where tiles have an element of a row.
func tileAt(row, column, kp int) int {
	tile := row/64*(kp/64) + column/64
	return tile*64*64 + row%64*64 + (column%64/8^row%8)*8 + column%8
}
