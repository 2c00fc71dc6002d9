package fake

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/ref"
)

// Experts returns the kernels of routed experts and of random weights, computed by package ref. Their names
// and parameters are those of the list in kernels/cuda/src/README.md.
func Experts() map[string]Kernel {
	all := map[string]Kernel{"random_weights": randomWeights, "sum_slots": sumSlots}
	for parts := 1; parts <= 2; parts++ {
		all[fmt.Sprintf("rows_split_p%d", parts)] = rowsSplit(parts, false)
		all[fmt.Sprintf("rows_pieces_p%d", parts)] = rowsSplit(parts, true)
		for _, tile := range []int{8, 32, 128} {
			of := fmt.Sprintf("_p%d_t%d", parts, tile)
			all["experts_up"+of] = expertsIn(plain, parts, tile, false, false)
			all["experts_in_wgmma"+of] = expertsIn(gatedTiles, parts, tile, true, true)
			all["experts_up_wgmma"+of] = expertsIn(tiles, parts, tile, false, true)
			all["project_wgmma"+of] = project(tiles, parts, tile, true)
			for name, read := range formats {
				all["experts_in"+name+of] = expertsIn(read, parts, tile, true, false)
				all["project"+name+of] = project(read, parts, tile, false)
			}
		}
	}
	return all
}

// planes are rows in parts of bf16.
type planes struct {
	m         *Memory
	at        cuda.Ptr
	parts     int
	plane, kp int
	pieces    bool // by pieces, for wgmma
}

// chunk is 8 elements of a row, from a column on.
func (p planes) chunk(part, r, column int) []uint16 {
	at := (part*p.plane+r)*p.kp + column
	if p.pieces {
		at = ((part*p.kp/64+column/64)*p.plane+r)*64 + (column/8%8^r%8)*8
	}
	return View[uint16](p.m, p.at+cuda.Ptr(2*at), 8)
}

// set writes a row; what is not given is zero.
func (p planes) set(r int, x []float32) {
	for part := range p.parts {
		for column := 0; column < p.kp; column += 8 {
			dst := p.chunk(part, r, column)
			clear(dst)
			for i, v := range x[min(column, len(x)):min(column+8, len(x))] {
				for range part {
					v -= toFloat(toBF16(v))
				}
				dst[i] = toBF16(v)
			}
		}
	}
}

func (p planes) get(r int) []float32 {
	x := make([]float32, p.kp)
	for part := range p.parts {
		for column := 0; column < p.kp; column += 8 {
			for i, v := range p.chunk(part, r, column) {
				x[column+i] += toFloat(v)
			}
		}
	}
	return x
}

func toBF16(v float32) uint16 {
	b := math.Float32bits(v)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func toFloat(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }

func rowsSplit(parts int, pieces bool) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		k, kp, ldx, plane := int(a[4]), int(a[5]), int(a[6]), int(a[7])
		to := planes{m, cuda.Ptr(a[0]), parts, plane, kp, pieces}
		for r := range int(l.Grid[0]) {
			from := r
			if a[2] != 0 {
				from = int(View[uint32](m, cuda.Ptr(a[2]), r+1)[r])
			}
			x := append([]float32(nil), View[float32](m, cuda.Ptr(a[1])+cuda.Ptr(4*from*ldx), k)...)
			if a[3] != 0 {
				times(x, View[float32](m, cuda.Ptr(a[3]), r+1)[r])
			}
			to.set(r, x)
		}
	}
}

func times(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

func tileOf(m *Memory, table uint64, i, most int) (group, from, rows int) {
	t := View[uint32](m, cuda.Ptr(table), 4*(i+1))[4*i:]
	if int(t[2]) > most {
		panic(illegal{cuda.Ptr(table)})
	}
	return int(t[0]), int(t[1]), int(t[2])
}

type matrix struct {
	w, bias []float32
	n, kp   int
}

func matrixOf(read format, m *Memory, groups uint64, g, n, kp int) matrix {
	entry := View[uint64](m, cuda.Ptr(groups), 2*(g+1))[2*g:]
	x := matrix{w: read(m, cuda.Ptr(entry[0]), n, kp), n: n, kp: kp}
	if entry[1] != 0 {
		x.bias = View[float32](m, cuda.Ptr(entry[1]), n)
	}
	return x
}

func (w *matrix) apply(x []float32) []float32 {
	y := ref.MatMul(x, w.w, 1, w.n, w.kp)
	for i, b := range w.bias {
		y[i] += b
	}
	return y
}

// eachRow calls f for all rows of tiles of at most so many, with their groups' matrices,
// each read once.
func eachRow(m *Memory, table uint64, tiles, most int, read func(g int) matrix, f func(r int, w *matrix)) {
	var w matrix
	last := -1
	for i := range tiles {
		g, from, rows := tileOf(m, table, i, most)
		if g != last && rows > 0 {
			w, last = read(g), g
		}
		for r := from; r < from+rows; r++ {
			f(r, &w)
		}
	}
}

func expertsIn(read format, parts, tile int, gated, pieces bool) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		f, fp, kp := int(a[4]), int(a[5]), int(a[6])
		act := planes{m, cuda.Ptr(a[0]), parts, int(a[7]), fp, pieces}
		x := planes{m, cuda.Ptr(a[1]), parts, int(a[8]), kp, pieces}
		n := f
		if gated {
			n = 2 * f
		}
		of := func(g int) matrix { return matrixOf(read, m, a[3], g, n, kp) }
		eachRow(m, a[2], int(a[9]), tile, of, func(r int, w *matrix) {
			act.set(r, activate(int(a[10]), float64(math.Float32frombits(uint32(a[11]))), w.apply(x.get(r)), f))
		})
	}
}

// activate is by the numbers of activations in the list of kernels.
func activate(kind int, limit float64, y []float32, f int) []float32 {
	switch kind {
	case 0:
		return ref.SwiGLU(y[:f], y[f:])
	case 1:
		return ref.ClampedSwiGLU(y[:f], y[f:], limit)
	case 2:
		return ref.GELU(y)
	}
	return ref.GELUTanh(y)
}

func project(read format, parts, tile int, pieces bool) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		n, kp, ldout := int(a[6]), int(a[7]), int(a[9])
		x := planes{m, cuda.Ptr(a[1]), parts, int(a[8]), kp, pieces}
		of := func(g int) matrix { return matrixOf(read, m, a[3], g, n, kp) }
		eachRow(m, a[2], int(a[10]), tile, of, func(r int, w *matrix) {
			y := w.apply(x.get(r))
			if a[5] != 0 {
				times(y, View[float32](m, cuda.Ptr(a[5]), r+1)[r])
			}
			to := r
			if a[4] != 0 {
				to = int(View[uint32](m, cuda.Ptr(a[4]), r+1)[r])
			}
			put(View[float32](m, cuda.Ptr(a[0])+cuda.Ptr(4*to*ldout), n), y, a[11] != 0)
		})
	}
}

// put writes y, or adds it to what is there.
func put(out, y []float32, add bool) {
	if !add {
		clear(out)
	}
	for i, v := range y {
		out[i] += v
	}
}
