package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// nibblesKernel writes a kernel that packs blocks of a panel's rows of codes of four bits, of which two lie in a byte, the
// first one's in its low half. Line i has a word for each of the first half of the rows: its bytes have codes of four
// inputs in their low halves, and in the upper ones those of the row that lies half a panel behind. Bits of each byte are
// changed. A block is half a vector of each row.
func nibblesKernel(m machine) {
	begin(m.name+"PackNibbles", "func(dst, src *byte, stride, blocks int, bits uint32)")
	g := &transposer{machine: m, line: m.width}
	n := g.words()
	g.v, g.t = m.vector[:n], m.vector[n:]
	low, bits := m.vector[n+turnRegs], m.vector[n+turnRegs+1]
	g.dst = parameter("dst")
	src := parameter("src")
	g.stride[0] = parameter("stride")
	blocks := parameter("blocks")
	g.stride[1] = GP64()
	LEAQ(Mem{Base: g.stride[0], Index: g.stride[0], Scale: 2}, g.stride[1])
	everyWord(Load(Param("bits"), GP32()).(reg.GPVirtual), bits)
	fillWords(0x0f0f0f0f, low)
	Label("block")
	a, b := g.behind(src, 0), g.behind(src, panelRows/2)
	for i, v := range g.v {
		g.join(g.row(a, i), g.row(b, i), low, bits, v)
		if i%4 == 3 {
			LEAQ(Mem{Base: a, Index: g.stride[0], Scale: 4}, a)
			LEAQ(Mem{Base: b, Index: g.stride[0], Scale: 4}, b)
		}
	}
	g.turn()
	g.store(0, func(lane, word int) int { return 4*lane + word })
	ADDQ(U32(g.line*n), g.dst)
	ADDQ(U32(m.width/2), src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	SFENCE()
	end()
}

// join fills v with a byte for each of the codes of a, with the code of b in its upper half.
func (g *transposer) join(a, b Mem, low, bits, v reg.VecPhysical) {
	t := g.t
	VPMOVZXBW(a, t[0]) // two codes in 16 bits
	VPMOVZXBW(b, t[1])
	VPSLLW(U8(4), t[0], t[2])
	VPORD(t[2], t[0], t[0]) // the low halves of bytes are a's codes in their order
	VPSLLW(U8(4), t[1], t[2])
	VPSLLW(U8(8), t[1], t[1])
	VPORD(t[2], t[1], t[1]) // the upper ones b's
	VMOVDQA32(low, v)
	const choose = 0xca // the bits of t[0] where v has ones, else those of t[1]
	VPTERNLOGD(U8(choose), t[1], t[0], v)
	VPXORD(bits, v, v)
}
