package cpu

import (
	"encoding/binary"
	"unsafe"
)

// Packer transposes weights into panels. Bits are the same however it is set. The zero Packer packs into Go's heap, on
// the caller alone.
type Packer struct {
	// Space is where weights go; nil: Go's heap.
	Space *Space
	// Run calls f(0) to f(n-1), perhaps side by side, and returns when all have; nil: one after the other.
	Run func(n int, f func(i int))
	// Near, if set, brings rows that follow each other into a buffer of as many bytes, as from a file, before they are
	// packed, or returns them where they are. Threads call it side by side.
	Near func(buffer, rows []byte) []byte
}

// pieceBytes are those of the panels that are packed in one call of Run's: some 20 µs.
const pieceBytes = 128 << 10

// each calls f for each panel, of so many bytes.
func (p Packer) each(panels, bytes int, f func(panel int)) {
	per := max(1, pieceBytes/max(1, bytes))
	pieces := (panels + per - 1) / per
	piece := func(i int) {
		for panel := i * per; panel < min(panels, (i+1)*per); panel++ {
			f(panel)
		}
	}
	if p.Run != nil && pieces > 1 {
		p.Run(pieces, piece)
		return
	}
	for i := range pieces {
		piece(i)
	}
}

// Each calls f for each panel of a matrix, each a piece for Run.
func (p Packer) Each(panels int, f func(panel int)) { p.each(panels, pieceBytes, f) }

// PackBF16 packs src, row-major (n, k) little-endian bf16.
func PackBF16(src []byte, n, k int) *Matrix {
	mustHold("PackBF16", len(src), n, k, 2)
	return StackBF16(k, src)
}

// StackBF16 packs matrices of k inputs, row-major little-endian bf16, one below the other.
func StackBF16(k int, parts ...[]byte) *Matrix { return Packer{}.BF16(k, parts...) }

// BF16 is StackBF16.
func (p Packer) BF16(k int, parts ...[]byte) *Matrix {
	all := stack(2*k, parts...)
	m := &Matrix{N: all.n, K: k}
	size := k * PanelWidth
	m.bf = take[uint16](p.Space, m.Panels()*size)
	p.each(m.Panels(), 2*size, func(i int) {
		p.panel(all, i, func(rows [][]byte) { packHalves(m.bf[i*size:][:size], rows, k) })
	})
	return m
}

// packBlock inputs of a panel are packed at a time in plain Go, to stay within the L1 cache.
const packBlock = 64

func packHalves(panel []uint16, rows [][]byte, k int) {
	if len(rows) < PanelWidth {
		clear(panel)
	}
	for from := transposeHalves(panel, rows, k); from < k; from += packBlock {
		packHalvesBlock(panel, rows, from, min(from+packBlock, k))
	}
}

func packHalvesBlock(panel []uint16, rows [][]byte, from, to int) {
	if len(rows) == PanelWidth {
		fours := to - (to-from)%4
		for j := 0; j < 16; j += 2 {
			packFours(panel[from*PanelWidth+2*j:], rows[j][2*from:2*fours], rows[j+16][2*from:2*fours], rows[j+1][2*from:2*fours], rows[j+17][2*from:2*fours])
		}
		from = fours
	}
	for j, row := range rows {
		for c := from; c < to; c++ {
			panel[c*PanelWidth+j%16*2+j/16] = binary.LittleEndian.Uint16(row[2*c:])
		}
	}
}

// packFours writes two words of each step of a panel: the elements of four rows, which have as many, a multiple of
// four.
func packFours(panel []uint16, a, b, c, d []byte) {
	const even = 0x0000_ffff_0000_ffff
	for len(a) >= 8 && len(b) >= 8 && len(c) >= 8 && len(d) >= 8 {
		w, x, y, z := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(c), binary.LittleEndian.Uint64(d)
		first02, first13 := w&even|x&even<<16, w>>16&even|x&^even
		second02, second13 := y&even|z&even<<16, y>>16&even|z&^even
		to := panel[: 3*PanelWidth+4 : 3*PanelWidth+4]
		putFour(to, first02&0xffff_ffff|second02<<32)
		putFour(to[PanelWidth:], first13&0xffff_ffff|second13<<32)
		putFour(to[2*PanelWidth:], first02>>32|second02&^0xffff_ffff)
		putFour(to[3*PanelWidth:], first13>>32|second13&^0xffff_ffff)
		a, b, c, d = a[8:], b[8:], c[8:], d[8:]
		if len(a) > 0 {
			panel = panel[4*PanelWidth:]
		}
	}
}

// putFour is one store, as the compiler joins them.
func putFour(to []uint16, v uint64) {
	_ = to[3]
	to[0], to[1], to[2], to[3] = uint16(v), uint16(v>>16), uint16(v>>32), uint16(v>>48)
}

// Pairs is StackBF16 for rows that are rounded to bf16.
func (p Packer) Pairs(k int, parts ...[]byte) *Matrix {
	all := stack(2*k, parts...)
	m := &Matrix{N: all.n, K: k, rounds: true}
	size := pairsOf(k) * 2 * PanelWidth
	m.bf = take[uint16](p.Space, m.Panels()*size)
	p.each(m.Panels(), 2*size, func(i int) {
		p.panel(all, i, func(rows [][]byte) { packPairs(m.bf[i*size:][:size], rows, k) })
	})
	return m
}

// packPairs packs rows of k bf16s as a panel of pairs; the last one of an odd number has a zero beside it.
func packPairs(panel []uint16, rows [][]byte, k int) {
	packWords(asBytes(panel), rows, PanelWidth)
	if k%2 == 0 {
		return
	}
	last := panel[len(panel)-2*PanelWidth:]
	clear(last)
	for j, row := range rows {
		last[2*j] = binary.LittleEndian.Uint16(row[2*k-2:])
	}
}

// PackF32 packs src, row-major (n, k).
func PackF32(src []float32, n, k int) *Matrix { return Packer{}.F32(src, n, k) }

// F32 is PackF32.
func (p Packer) F32(src []float32, n, k int) *Matrix {
	mustHold("PackF32", len(src), n, k, 1)
	m := &Matrix{N: n, K: k}
	size := k * PanelWidth
	m.f32 = take[float32](p.Space, m.Panels()*size)
	all := stack(4*k, asBytes(src))
	p.each(m.Panels(), 4*size, func(i int) {
		p.panel(all, i, func(rows [][]byte) { packWords(asBytes(m.f32[i*size:][:size]), rows, PanelWidth) })
	})
	return m
}

// packWords packs rows of words, and leaves out what does not fill one: a line of a panel has a word of each row, and
// zeros where there are fewer than its width.
func packWords(panel []byte, rows [][]byte, width int) {
	if len(rows) < width {
		clear(panel)
	}
	size := len(rows[0]) &^ 3
	for from := transposeWords(panel, rows, width); from < size; from += 4 * packBlock {
		to := min(from+4*packBlock, size)
		for j := 0; j+1 < len(rows); j += 2 {
			packTwo(panel[from*width+4*j:], rows[j][from:to], rows[j+1][from:to], width)
		}
		if j := len(rows) - 1; j%2 == 0 {
			for at := from; at < to; at += 4 {
				copy(panel[at*width+4*j:], rows[j][at:at+4])
			}
		}
	}
}

// packTwo writes two words of each line of a panel: those of two rows.
func packTwo(panel, a, b []byte, width int) {
	for at := 0; at+4 <= len(a) && at+4 <= len(b); at += 4 {
		two := uint64(binary.LittleEndian.Uint32(a[at:])) | uint64(binary.LittleEndian.Uint32(b[at:]))<<32
		binary.LittleEndian.PutUint64(panel[at*width:], two)
	}
}

// asBytes returns the bytes of numbers, little-endian as all machines here.
func asBytes[T uint16 | float32](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}
