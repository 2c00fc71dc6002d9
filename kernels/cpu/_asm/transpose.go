package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// panelRows are the outputs of a panel, each a row of what is packed.
const panelRows = 32

// transposer writes kernels that turn words of rows into lines: line i has word i of each row. It takes as many rows
// at a time as a vector has words.
type transposer struct {
	machine
	v, t   []reg.VecPhysical // a word of each row for each of v's words; what is free
	stride [2]reg.GPVirtual  // once and three times the distance of two rows
	line   int               // bytes from a line to the next
	dst    reg.GPVirtual
	// Upper elements of bf16, which are packed behind the lower ones, wait in registers and, where those are too few,
	// in memory.
	spare []reg.VecPhysical
	saved Mem
}

func (g *transposer) words() int { return g.width / 4 }

// packKernel writes a kernel that packs blocks of so many rows of words. With two, a word has an element of a row and one
// of the row that lies as many rows behind: bf16.
func packKernel(m machine, name string, all int, two bool) {
	begin(m.name+name, "func(dst, src *byte, stride, blocks int)")
	g := &transposer{machine: m, line: 4 * all}
	n := g.words()
	g.v, g.t = m.vector[:n], m.vector[n:]
	if two {
		g.spare, g.t = g.t[turnRegs:], g.t[:turnRegs]
		g.saved = AllocLocal((n - len(g.spare)) * m.width)
	}
	g.dst = parameter("dst")
	src := parameter("src")
	g.stride[0] = parameter("stride")
	blocks := parameter("blocks")
	g.stride[1] = GP64()
	LEAQ(Mem{Base: g.stride[0], Index: g.stride[0], Scale: 2}, g.stride[1])
	Label("block")
	if two {
		g.halves(src)
		ADDQ(U32(g.line*g.width/2), g.dst)
	} else {
		for rows := 0; rows < all; rows += n {
			g.load(g.behind(src, rows), nil)
			g.turn()
			g.store(4*rows, func(lane, word int) int { return 4*lane + word })
		}
		ADDQ(U32(g.line*n), g.dst)
	}
	ADDQ(U32(g.width), src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	SFENCE()
	end()
}

// halves packs a block of bf16: the lower and then the upper elements of each lane. A row is read once: where rows lie
// at a power of two, the first level cache does not hold all of a panel's.
func (g *transposer) halves(src reg.GPVirtual) {
	n := g.words()
	for rows := 0; rows < panelRows/2; rows += n {
		g.load(g.behind(src, rows), g.behind(src, rows+panelRows/2))
		g.turn()
		g.store(4*rows, func(lane, word int) int { return 8*lane + word })
		for i, v := range g.v {
			g.move(g.upper(i), v)
		}
		g.turn()
		g.store(4*rows, func(lane, word int) int { return 8*lane + 4 + word })
	}
}

// upper is where upper elements wait.
func (g *transposer) upper(i int) Op {
	if i < len(g.spare) {
		return g.spare[i]
	}
	return g.saved.Offset(g.width * (i - len(g.spare)))
}

// turnRegs are enough for turn beside what it turns.
const turnRegs = 4

// behind is the address so many rows behind src, in a register that may be changed.
func (g *transposer) behind(src reg.GPVirtual, rows int) reg.GPVirtual {
	at := GP64()
	if rows == 0 {
		MOVQ(src, at)
		return at
	}
	IMUL3Q(U8(rows), g.stride[0], at)
	ADDQ(src, at)
	return at
}

// load fills v with words of rows from a on. With b, a word has the lower elements of those and of rows from b on, and
// the upper ones go to memory.
func (g *transposer) load(a, b reg.Register) {
	for i, v := range g.v {
		if b == nil {
			g.move(g.row(a, i), v)
		} else {
			g.move(g.row(a, i), g.t[0])
			g.move(g.row(b, i), g.t[1])
			VPUNPCKLWD(g.t[1], g.t[0], v)
			if i < len(g.spare) {
				VPUNPCKHWD(g.t[1], g.t[0], g.spare[i])
			} else {
				VPUNPCKHWD(g.t[1], g.t[0], g.t[0])
				g.move(g.t[0], g.upper(i))
			}
		}
		for _, at := range []reg.Register{a, b} {
			if at != nil && i%4 == 3 {
				LEAQ(Mem{Base: at, Index: g.stride[0], Scale: 4}, at)
			}
		}
	}
}

// row is that of four rows from at on.
func (g *transposer) row(at reg.Register, i int) Mem {
	switch i % 4 {
	case 1:
		return Mem{Base: at, Index: g.stride[0], Scale: 1}
	case 2:
		return Mem{Base: at, Index: g.stride[0], Scale: 2}
	case 3:
		return Mem{Base: at, Index: g.stride[1], Scale: 1}
	}
	return Mem{Base: at}
}

// turn transposes four by four words in each lane, and then lanes. v[4·i+j] has line i of lane j at last, in the
// order that store knows.
func (g *transposer) turn() {
	for i := 0; i < len(g.v); i += 4 {
		r, t := g.v[i:i+4], g.t
		VPUNPCKLDQ(r[1], r[0], t[0])
		VPUNPCKHDQ(r[1], r[0], t[1])
		VPUNPCKLDQ(r[3], r[2], t[2])
		VPUNPCKHDQ(r[3], r[2], t[3])
		VPUNPCKLQDQ(t[2], t[0], r[0])
		VPUNPCKHQDQ(t[2], t[0], r[1])
		VPUNPCKLQDQ(t[3], t[1], r[2])
		VPUNPCKHQDQ(t[3], t[1], r[3])
	}
	for word := range 4 {
		r, t := g.v[word:], g.t
		if !g.is512() {
			VPERM2I128(U8(0x20), r[4], r[0], t[0])
			VPERM2I128(U8(0x31), r[4], r[0], r[4])
			VMOVDQA(t[0], r[0])
			continue
		}
		VSHUFI32X4(U8(0x44), r[4], r[0], t[0])
		VSHUFI32X4(U8(0xee), r[4], r[0], t[1])
		VSHUFI32X4(U8(0x44), r[12], r[8], t[2])
		VSHUFI32X4(U8(0xee), r[12], r[8], t[3])
		VSHUFI32X4(U8(0x88), t[2], t[0], r[0])
		VSHUFI32X4(U8(0xdd), t[2], t[0], r[4])
		VSHUFI32X4(U8(0x88), t[3], t[1], r[8])
		VSHUFI32X4(U8(0xdd), t[3], t[1], r[12])
	}
}

// store writes the lines, each at some bytes behind its begin; place is the line of a lane's word. Where a vector fills
// a cache line it goes past the caches, which would read the line first.
func (g *transposer) store(behind int, place func(lane, word int) int) {
	for i, v := range g.v {
		to := Mem{Base: g.dst, Disp: g.line*place(i/4, i%4) + behind}
		if g.is512() {
			VMOVNTDQ(v, to)
		} else {
			g.move(v, to)
		}
	}
}

func (g *transposer) move(from, to Op) {
	if g.is512() {
		VMOVDQU32(from, to)
		return
	}
	VMOVDQU(from, to)
}
