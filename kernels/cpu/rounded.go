package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// A Rounded holds rows for matrices of codes: of each QGroup inputs whole codes of -127
// to 127 times a scale, the largest magnitude over 127. All rows that meet such a matrix are
// rounded first, so a row has the same bits alone and in a batch.
//
// A group is QGroup codes, the scale in float32, and -128 times the sum of the codes in int32, then -32 times that of either
// half: weights are stored with 128 (or 8, times 16; or 32, of 6 bits) added, to be no less than zero, and
// an integer accumulator that begins at that number has the sum of signed products in the end.
// Last comes the sum times the scale in float32, for weights that have offsets.
// A group whose largest magnitude is below smallestRow is zero, and one with a value that is
// no finite number has NaN for its scale.
//
// For W16A16 it holds rows in bf16, see Packer.Pairs.
type Rounded struct {
	rows, k int
	paired  bool // for W16A16
	placed  bool // in bf16, and in tiles: see placePairs
	stride  int  // of rows, in bytes
	codes   []byte
}

const (
	roundedGroup = QGroup + 5*4
	smallestRow  = 0x1p-100
)

var roundings sync.Pool // of *Rounded

// NewRounded returns memory for rows that a matrix is multiplied with. Release gives it back.
func (m *Matrix) NewRounded(rows int) *Rounded {
	r, ok := roundings.Get().(*Rounded)
	if !ok {
		r = new(Rounded)
	}
	r.rows, r.k, r.paired = rows, m.K, m.bf != nil
	r.placed = r.paired && r.k > 0 && hasTiles()
	size := r.k / QGroup * roundedGroup
	if r.paired {
		size = 4 * pairsOf(r.k)
	}
	r.stride = (size+63)/64*64 + 64 // no multiple of 4 KiB, so that rows share no set of the L1 cache
	if r.stride%4096 == 0 {
		r.stride += 64
	}
	all := rows * r.stride
	if r.placed {
		all = parts(rows, tileRows) * stepsOf(pairsOf(r.k)) * tileBytes
	}
	if len(r.codes) < all {
		r.codes = aligned[byte](all)
	}
	return r
}

// Release gives the memory back: nobody uses r any more.
func (r *Rounded) Release() { roundings.Put(r) }

// Round rounds rows [from, to); x begins at row from, and its rows are ldX apart.
func (r *Rounded) Round(x []float32, ldX, from, to int) {
	if from < 0 || to > r.rows || ldX < r.k || from < to && len(x) < (to-from-1)*ldX+r.k {
		panic(fmt.Sprintf("cpu.Rounded.Round: rows [%d, %d) of %d from %d values (stride %d, %d inputs)", from, to, r.rows, len(x), ldX, r.k))
	}
	if r.k == 0 {
		return
	}
	for i := from; i < to; i++ {
		if row := x[(i-from)*ldX:][:r.k]; r.placed {
			r.placePairs(i, row)
		} else if r.paired {
			pairRow(r.codes[i*r.stride:], row)
		} else {
			round(r.codes[i*r.stride:], row)
		}
	}
}

func roundGeneric(dst []byte, x []float32) {
	for ; len(x) >= QGroup; x, dst = x[QGroup:], dst[min(roundedGroup, len(dst)):] {
		roundGroup((*[roundedGroup]byte)(dst), (*[QGroup]float32)(x))
	}
}

func roundGroup(dst *[roundedGroup]byte, x *[QGroup]float32) {
	top := uint32(0) // magnitudes as bits have the same order, and NaN is above all
	for _, v := range x {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	clear(dst[:])
	step, sum := float32(math.NaN()), float32(0)
	if largest := math.Float32frombits(top); top < 0x7f800000 {
		step = 0
		if largest >= smallestRow {
			step = largest / 127
			sum = float32(roundCodes(dst, x, 127/largest))
		}
	}
	binary.LittleEndian.PutUint32(dst[QGroup:], math.Float32bits(step))
	binary.LittleEndian.PutUint32(dst[QGroup+4*4:], math.Float32bits(sum*step))
}

// roundCodes writes codes and what takes back that weights are not negative, and returns the codes' sum.
func roundCodes(dst *[roundedGroup]byte, x *[QGroup]float32, inv float32) int32 {
	var sums [2]int32 // of halves
	for i, v := range x {
		c := int32(math.RoundToEven(float64(v * inv)))
		dst[i] = byte(c)
		sums[i/(QGroup/2)] += c
	}
	for i, less := range []int32{-128 * (sums[0] + sums[1]), -32 * sums[0], -32 * sums[1]} {
		binary.LittleEndian.PutUint32(dst[QGroup+4+4*i:], uint32(less))
	}
	return sums[0] + sums[1]
}

// RoundsRows reports whether rows are rounded before they are multiplied with the matrix.
func (m *Matrix) RoundsRows() bool { return m.rounds }

// MatMulRounded is MatMul for a matrix that rounds rows, of rows that were rounded for such a one.
func MatMulRounded(dst []float32, ldDst int, r *Rounded, w *Matrix, p0, p1 int) {
	if r.rows == 0 || p0 >= p1 {
		return
	}
	if !w.rounds || r.k != w.K || r.paired != (w.bf != nil) || p0 < 0 || p1 > w.Panels() || ldDst < w.N || len(dst) < (r.rows-1)*ldDst+min(w.N, p1*PanelWidth) {
		panic(fmt.Sprintf("cpu.MatMulRounded: dst %d (stride %d), %d rows of %d inputs, weights (%d, %d), panels [%d, %d)",
			len(dst), ldDst, r.rows, r.k, w.N, w.K, p0, p1))
	}
	if w.stack != nil {
		w.eachPart(p0, p1, func(m *Matrix, first, from, to int) { MatMulRounded(dst[min(first, len(dst)):], ldDst, r, m, from, to) })
		return
	}
	whole := min(p1, w.N/PanelWidth)
	if p0 < whole {
		matMulCodes(dst[p0*PanelWidth:], ldDst, r, 0, r.rows, w, p0, whole)
	}
	if max(p0, whole) < p1 {
		r.matMulLast(dst, ldDst, w)
	}
}

// matMulLast is the function of that name, for rounded rows.
func (r *Rounded) matMulLast(dst []float32, ldDst int, w *Matrix) {
	var full [lastRows * PanelWidth]float32
	p := w.Panels() - 1
	width := w.N - p*PanelWidth
	for from := 0; from < r.rows; from += lastRows {
		n := min(lastRows, r.rows-from)
		matMulCodes(full[:], PanelWidth, r, from, n, w, p, p+1)
		for i := range n {
			copy(dst[(from+i)*ldDst+p*PanelWidth:][:width], full[i*PanelWidth:])
		}
	}
}

// matMulCodes computes whole panels of rows from row from on; dst starts at that row and panel p0.
func matMulCodes(dst []float32, ldDst int, r *Rounded, from, rows int, w *Matrix, p0, p1 int) {
	if r.paired {
		size := pairsOf(w.K) * 2 * PanelWidth
		t := tile{ldDst: ldDst, ldX: r.stride, rows: rows, k: pairsOf(w.K), panels: p1 - p0, panelStride: size}
		if r.placed {
			tilePairsAMX(dst, r.pairsAt(from), w.bf[p0*size:], t)
			return
		}
		tilePairs(dst, r.codes[from*r.stride:], w.bf[p0*size:], t)
		return
	}
	tileDots(dst, r.codes[from*r.stride:], w, p0, tile{ldDst: ldDst, ldX: r.stride, rows: rows, k: w.K, panels: p1 - p0})
}

func matMulRounding(dst []float32, ldDst int, x []float32, ldX, rows int, w *Matrix, p0, p1 int) {
	r := w.NewRounded(rows)
	r.Round(x, ldX, 0, rows)
	MatMulRounded(dst, ldDst, r, w, p0, p1)
	r.Release()
}
