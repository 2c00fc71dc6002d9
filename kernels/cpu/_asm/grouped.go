package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (g *tileGen) loadStep(m Mem, v reg.VecPhysical) {
	VPMOVZXWD(m, v)
	VPSLLD(U8(16), v, v)
	if g.w == q8 || !g.is512() {
		VMULPS(constant("two_24"), v, v) // toFloats leaves codes in the highest byte
	}
}

// q8Turn adds four inputs: 32 words of a panel, of an output each, whose codes have 128 added.
func (g *tileGen) q8Turn() {
	for i := range g.groups {
		panel, offset := g.place(i)
		for half, v := range []reg.VecPhysical{g.codes, g.high} {
			if offset == 0 {
				PREFETCHT0(g.wAt(g.wp, panel, 64*half+prefetchAhead))
			}
			VMOVUPS(g.wAt(g.wp, panel, offset+64*half), v)
			g.xor(constant("highs"), v, v)
		}
		for u := range mxTurn {
			g.toFloats(u)
			g.addStep(i, u)
		}
	}
	SUBQ(I8(-128), g.wp)
	g.advance(mxTurn)
}

// eachByte makes floats of four inputs' bytes, in lo and hi, and has each group of outputs use them.
func (g *tileGen) eachByte(use func(group, u int)) {
	for u := range mxTurn {
		for i := range g.groups {
			panel, offset := g.place(i)
			if offset == 0 && u%2 == 0 {
				PREFETCHT0(g.wAt(g.wp, panel, 32*u+prefetchAhead))
			}
			VPMOVSXBD(g.wAt(g.wp, panel, 32*u+offset/4), g.lo)
			VPMOVSXBD(g.wAt(g.wp, panel, 32*u+offset/4+16), g.hi)
			VCVTDQ2PS(g.lo, g.lo)
			VCVTDQ2PS(g.hi, g.hi)
			use(i, u)
		}
	}
	SUBQ(I8(-128), g.wp)
}

// q4Values are the values of the codes of Q4, q4Bytes the same as bytes.
func q4Values() Mem {
	return table("q4_values", 16, func(i int) Constant { return U32(bits(float32(q4Value(i)))) })
}

func q4Bytes() Mem {
	return table("q4_bytes", 32, func(i int) Constant { return U8(uint8(q4Value(i % 16))) })
}

// q4Value is a code as a signed number of four bits.
func q4Value(code int) int8 { return int8(code<<4) >> 4 }

// toFloats takes byte u of each word, times 2^24.
func (g *tileGen) toFloats(u int) {
	VPSHUFB(toTop(u), g.codes, g.lo)
	VPSHUFB(toTop(u), g.high, g.hi)
	VCVTDQ2PS(g.lo, g.lo)
	VCVTDQ2PS(g.hi, g.hi)
}

// toTop moves byte u of each word to its highest byte, and clears the others.
func toTop(u int) Mem {
	return table(fmt.Sprintf("to_top_%d", u), 64, func(i int) Constant {
		if i%4 == 3 {
			return U8(uint8(i%16 - 3 + u))
		}
		return U8(0x80)
	})
}
