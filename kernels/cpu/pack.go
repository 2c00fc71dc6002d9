package cpu

import "encoding/binary"

// Packing transposes weights panel by panel. Rows are read, and panels written, in words of several elements: one
// element at a time takes many times as long as copying.

// block is some inputs of a panel's outputs.
type block struct {
	panel    int
	first    int // output
	outputs  int // PanelWidth, but of the last panel perhaps
	from, to int // inputs
}

// packBlock inputs of a panel are packed at a time, to stay within the L1 cache.
const packBlock = 64

// eachBlock calls put for each block of an (n, k) matrix.
func eachBlock(n, k int, put func(b block)) {
	for first := 0; first < n; first += PanelWidth {
		for from := 0; from < k; from += packBlock {
			put(block{first / PanelWidth, first, min(PanelWidth, n-first), from, min(from+packBlock, k)})
		}
	}
}

// PackBF16 packs src, row-major (n, k) little-endian bf16.
func PackBF16(src []byte, n, k int) *Matrix {
	mustHold("PackBF16", len(src), n, k, 2)
	return StackBF16(k, src)
}

// StackBF16 packs matrices of k inputs, row-major little-endian bf16, one below the other.
func StackBF16(k int, parts ...[]byte) *Matrix {
	rows := rowsOf(2*k, parts)
	m := &Matrix{N: len(rows), K: k}
	m.bf = aligned[uint16](m.Panels() * k * PanelWidth)
	eachBlock(m.N, k, func(b block) {
		panel := m.bf[b.panel*k*PanelWidth:][:k*PanelWidth]
		from := b.from
		if b.outputs == PanelWidth {
			from = b.to - (b.to-b.from)%4
			for j := 0; j < 16; j += 2 {
				some, at := rows[b.first+j:], 2*b.from
				packFours(panel[b.from*PanelWidth+2*j:], some[0][at:2*from], some[16][at:2*from], some[1][at:2*from], some[17][at:2*from])
			}
		}
		for j, row := range rows[b.first:][:b.outputs] {
			for c := from; c < b.to; c++ {
				panel[c*PanelWidth+j%16*2+j/16] = binary.LittleEndian.Uint16(row[2*c:])
			}
		}
	})
	return m
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

// rowsOf cuts matrices into rows of so many bytes.
func rowsOf(size int, parts [][]byte) (rows [][]byte) {
	for _, part := range parts {
		for ; len(part) >= size && size > 0; part = part[size:] {
			rows = append(rows, part[:size])
		}
	}
	return rows
}

// PackPairs packs src, row-major (n, k) little-endian bf16, for rows that are rounded to bf16.
func PackPairs(src []byte, n, k int) *Matrix {
	mustHold("PackPairs", len(src), n, k, 2)
	return StackPairs(k, src)
}

// StackPairs is StackBF16 for rows that are rounded to bf16.
func StackPairs(k int, parts ...[]byte) *Matrix {
	rows := rowsOf(2*k, parts)
	m := &Matrix{N: len(rows), K: k, rounds: true}
	size := pairsOf(k) * 2 * PanelWidth
	m.bf = aligned[uint16](m.Panels() * size)
	eachBlock(m.N, k, func(b block) {
		panel := m.bf[b.panel*size:][:size]
		from := b.from
		if b.outputs == PanelWidth {
			from = b.to - (b.to-b.from)%4
			for j := 0; j < PanelWidth; j += 2 {
				packTwoPairs(panel[pairAt(b.from, j):], rows[b.first+j][2*b.from:2*from], rows[b.first+j+1][2*b.from:2*from])
			}
		}
		for j, row := range rows[b.first:][:b.outputs] {
			for c := from; c < b.to; c++ {
				panel[pairAt(c, j)] = binary.LittleEndian.Uint16(row[2*c:])
			}
		}
	})
	return m
}

// packTwoPairs writes a word of each two steps of a panel: the pairs of two rows, which have as many elements, a multiple
// of four.
func packTwoPairs(panel []uint16, a, b []byte) {
	for len(a) >= 8 && len(b) >= 8 {
		x, y := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)
		putFour(panel, x&0xffff_ffff|y<<32)
		putFour(panel[2*PanelWidth:], x>>32|y&^0xffff_ffff)
		if a, b = a[8:], b[8:]; len(a) > 0 {
			panel = panel[4*PanelWidth:]
		}
	}
}

// PackF32 packs src, row-major (n, k).
func PackF32(src []float32, n, k int) *Matrix {
	mustHold("PackF32", len(src), n, k, 1)
	m := &Matrix{N: n, K: k}
	m.f32 = aligned[float32](m.Panels() * k * PanelWidth)
	eachBlock(n, k, func(b block) {
		panel := m.f32[(b.panel*k+b.from)*PanelWidth:]
		row := func(j int) []float32 { return src[(b.first+j)*k+b.from:][:b.to-b.from] }
		j := 0
		for ; j+4 <= b.outputs; j += 4 {
			packFourFloats(panel[j:], row(j), row(j+1), row(j+2), row(j+3))
		}
		for ; j < b.outputs; j++ {
			for i, v := range row(j) {
				panel[i*PanelWidth+j] = v
			}
		}
	})
	return m
}

// packFourFloats writes four outputs of each step of a panel.
func packFourFloats(panel, a, b, c, d []float32) {
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	for i := range a {
		to := panel[i*PanelWidth:][:4]
		to[0], to[1], to[2], to[3] = a[i], b[i], c[i], d[i]
	}
}
