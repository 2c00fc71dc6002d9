package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// These kernels multiply a code with its scale by VPDPBUSD, and need two instructions for 16 weights where a table, shifts and
// a product of floats take three or four.
//
// A scale of bf16 with exponent field e is S·2^(e-134), where S, its significand, is a whole number from 128 to 255. S lies
// in one byte of a word, and so chooses one of the four codes there. VPDPBUSD adds code·S to the bits of a float, the raw base,
// whose last bit is worth 2^(e-134): its exponent field is e+16. Subtracting the base then leaves code·scale. That is exact:
//   - |code·S| is at most 128·255, less than 2^22, so neither the exponent nor the sign of the float changes; both terms of the
//     subtraction are multiples of its last bit, and so is the difference, of at most 15 bits.
//   - e+16 is at most 254, so that the raw base is finite, and e is at least 1, so that the scale has its first bit. That holds
//     for scales from 2^-90 to 2^98, which package cpu pins beside basedRaise.
//   - A scale of zero has S = 0: the difference is +0 for every code.
//
// A negative scale makes the base negative: a code then adds to its magnitude, and the difference has the other sign.
//
// What a weight of zero does: see underflow.
const (
	basedQ4 weights = "BasedQ4"
	basedQ8 weights = "BasedQ8"
)

var basedShapes = map[weights][]shape{
	basedQ4: {{1, 2}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}},
	basedQ8: {{1, 2}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}, {9, 1}},
}

// basedGen writes a tile.
type basedGen struct {
	tileGen
	panel [][2]basedHalf  // of a group
	eight reg.VecPhysical // Q4: what makes codes no less than zero
	codes reg.VecPhysical
	float [2]reg.VecPhysical // weights
	turn  int                // of float
}

// basedHalf is what 16 outputs of a panel have for a group of inputs.
type basedHalf struct {
	by   [mxTurn]reg.VecPhysical // significands, each in the byte of an input
	raw  reg.VecPhysical         // bases that products are added to
	base reg.VecPhysical         // what is subtracted: raw, but for Q4's first outputs, whose codes have 8 added, raw + 8 significands
}

func basedKernels() {
	for _, w := range []weights{basedQ4, basedQ8} {
		for _, s := range basedShapes[w] {
			g := &basedGen{tileGen: tileGen{machine: wide, w: w, rows: s.rows, groups: s.groups, perHead: s.rows}}
			g.kernel(tileName(wide, w, s.rows, s.groups))
		}
	}
}

func (g *basedGen) kernel(name string) {
	begin(name, "func(a *byte)")
	g.assign()
	args := parameter("a")
	g.loadArgs(args)
	g.clearUnderflow(args)
	g.clear()
	g.loop(args)
	g.store(args)
	g.tellZeros(args)
	end()
}

func (g *basedGen) assign() {
	free := g.vector
	take := taker(&free)
	g.assignRows(take)
	g.float, g.codes = [2]reg.VecPhysical{g.lo, g.hi}, take()
	for range g.groups {
		var halves [2]basedHalf
		for i := range halves {
			h := &halves[i]
			for u := range h.by {
				h.by[u] = take()
			}
			h.base = take()
			if h.raw = h.base; g.w == basedQ4 && i == 0 {
				h.raw = take()
			}
		}
		g.panel = append(g.panel, halves)
	}
	g.mask = take()
	if g.w == basedQ4 && g.groups == 1 {
		g.eight = take()
	}
}

// Masks: all low words, all high ones, scales that are not zero, outputs of a vector that are zero, and those of all vectors.
var (
	lowWords  = reg.K3
	highWords = reg.K2
	nonzero   = reg.K1
	zero      = reg.K1 // when no scale is loaded any more
	zeros     = reg.K4
)

func (g *basedGen) loop(args reg.GPVirtual) {
	bits := GP32()
	MOVL(U32(0x55555555), bits)
	KMOVD(bits, lowWords)
	NOTL(bits)
	KMOVD(bits, highWords)
	mask := "highs" // Q8: XORed with codes, it takes back the 128 that they have added
	if g.w == basedQ4 {
		mask = "nibbles" // the codes of the first outputs
	}
	VMOVUPS(constant(mask), g.mask)
	if g.eight != nil {
		VMOVUPS(constant("eights"), g.eight)
	}
	scalep, left := field(args, argScales), GP64()
	var stride reg.GPVirtual
	if g.groups > 1 {
		stride = field(args, argScaleStride)
	}
	Label("block")
	for i := range g.groups {
		m := Mem{Base: scalep}
		if i > 0 {
			m.Index, m.Scale = stride, 1
		}
		g.loadScales(m, g.panel[i])
	}
	ADDQ(U8(64), scalep)
	MOVQ(U32(mxBlock/mxTurn), left)
	Label("turn")
	for i := range g.groups {
		if g.w == basedQ4 {
			g.turn4(i)
		} else {
			g.turn8(i)
		}
	}
	if g.w == basedQ4 {
		ADDQ(U8(64), g.wp)
	} else {
		SUBQ(I8(-128), g.wp)
	}
	g.advance(mxTurn)
	DECQ(left)
	JNZ(LabelRef("turn"))
	SUBQ(U8(mxBlock), g.k)
	JG(LabelRef("block"))
}

// loadScales takes a panel's 32 scales of bf16 apart.
func (g *basedGen) loadScales(m Mem, halves [2]basedHalf) {
	bases, parts, at := g.float[0], g.float[1], g.codes
	VMOVUPS(m, bases)
	VPTESTMW(constant("sizes16"), bases, nonzero)
	VPANDD(constant("fraction16"), bases, parts)
	VPADDW_Z(constant("hidden16"), parts, nonzero, parts)
	VPANDD(constant("exponent16"), bases, bases)
	VPADDW(g.raises(), bases, bases)
	for i, h := range halves {
		VMOVUPS(pairOf(i), at)
		VPERMW_Z(parts, at, lowWords, h.by[0])
		for u, v := range h.by[1:] {
			VPSLLD(U8(uint8(8*(u+1))), h.by[0], v)
		}
		VPERMW_Z(bases, at, highWords, h.raw)
		if h.raw != h.base { // codes have 8 too much
			VPSLLD(U8(3), h.by[0], h.base)
			VPADDD(h.raw, h.base, h.base)
		}
	}
}

// pairOf are the indices of 16 words of a vector, each twice: the first ones or the last ones.
func pairOf(half int) Mem {
	return table([]string{"first_words", "last_words"}[half], 32, func(i int) Constant { return U16(uint16(16*half + i/2)) })
}

// raises are what is added to words of scales so that they are the upper words of bases. A significand has 7 bits behind
// its first, and a float has 23. Where products may be negative, a base is one and a half times a power of two. Those of Q4's last
// outputs are 16 times as large as they should be.
func (g *basedGen) raises() Mem {
	const raise = 16 // basedRaise of package cpu
	first, last, name := uint16(raise<<7|0x40), uint16(raise<<7|0x40), "raises_q8"
	if g.w == basedQ4 {
		first, last, name = raise<<7, (raise-4)<<7|0x40, "raises_q4"
	}
	return table(name, 32, func(i int) Constant {
		if i < 16 {
			return U16(first)
		}
		return U16(last)
	})
}

// turn4 adds four inputs of a panel: 64 bytes, laid out as MXFP4's.
func (g *basedGen) turn4(group int) {
	codes := g.wAt(g.wp, group, 0)
	PREFETCHT0(g.wAt(g.wp, group, prefetchAhead))
	if g.eight != nil {
		VMOVDQA64(g.eight, g.codes)
	} else {
		VMOVUPS(constant("eights"), g.codes)
	}
	VPTERNLOGD(U8(0x78), codes, g.mask, g.codes) // eights ^ mask & codes
	g.half(group, 0)
	VPANDND(codes, g.mask, g.codes)
	g.half(group, 1)
}

// turn8 adds four inputs of a panel: 32 words, of an output each, whose codes have 128 added.
func (g *basedGen) turn8(group int) {
	for half := range 2 {
		PREFETCHT0(g.wAt(g.wp, group, 64*half+prefetchAhead))
		VPXORD(g.wAt(g.wp, group, 64*half), g.mask, g.codes)
		g.half(group, half)
	}
}

// half makes weights of the codes of four inputs, and adds their products to the chains.
func (g *basedGen) half(group, half int) {
	h := g.panel[group][half]
	for u := range mxTurn {
		w := g.next()
		VMOVDQA64(h.raw, w)
		VPDPBUSD(g.codes, h.by[u], w)
		VSUBPS(h.base, w, w)
		for r := range g.rows {
			VFMADD231PS_BCST(g.xAt(r, u), w, g.acc[r][group][half])
		}
	}
}

func (g *basedGen) next() reg.VecPhysical {
	g.turn++
	return g.float[g.turn%2]
}

func writeBasedDispatch(path string) {
	b := &strings.Builder{}
	b.WriteString("// Code generated by _asm. DO NOT EDIT.\n\npackage cpu\n\nimport \"unsafe\"\n")
	for _, w := range []weights{basedQ4, basedQ8} {
		writeSwitch(b, wide.name+string(w), basedShapes[w], func(s shape) string { return tileName(wide, w, s.rows, s.groups) })
	}
	write(path, b)
}
