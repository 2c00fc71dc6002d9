package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (w weights) packed() bool { return w != bf16 && w != f32 && w != kept }

type packedRegs struct {
	scales [][2]reg.VecPhysical // a group's, for one block of inputs
	codes  reg.VecPhysical      // as loaded
	high   reg.VecPhysical      // of mxBytes
	table  reg.VecPhysical      // values of the codes of MXFP4; what stays of those of FP8
	scalep reg.GPVirtual
}

func (g *tileGen) assignPacked(take func() reg.VecPhysical) {
	for range g.groups {
		g.scales = append(g.scales, [2]reg.VecPhysical{take(), take()})
	}
	if g.w == q8 {
		g.codes, g.high = take(), take()
		return
	}
	g.codes, g.table = take(), take()
	if g.w != fp8 && !g.is512() {
		g.high = take()
	}
}

// packedLoop goes through the blocks of inputs that share scales.
func (g *tileGen) packedLoop(args reg.GPVirtual) {
	g.loadTable()
	g.scalep = field(args, argScales)
	left := GP64()
	Label("block")
	g.loadScales(args)
	if g.w == fp8 {
		MOVQ(U32(fp8Block), left)
		CMPQ(g.k, left)
		CMOVQLT(g.k, left)
		SUBQ(left, g.k)
	} else {
		MOVQ(U32(mxBlock/mxTurn), left)
	}
	Label("turn")
	switch g.w {
	case fp8:
		g.fp8Turn()
	case q8:
		g.q8Turn()
	default:
		g.mxTurn()
	}
	DECQ(left)
	JNZ(LabelRef("turn"))
	if g.w == fp8 {
		TESTQ(g.k, g.k)
	} else {
		SUBQ(U8(mxBlock), g.k)
	}
	JG(LabelRef("block"))
}

// Inputs of a block, and of a turn of the loop; groups of Q8 and Q4 are as long as blocks of MXFP4.
const (
	mxBlock  = 32
	mxTurn   = 4
	fp8Block = 128
)

func (g *tileGen) loadTable() {
	switch {
	case g.w == q8:
	case g.w == fp8:
		fillWords(0xbf80bf80, g.table)
	case g.w == q4 && g.is512():
		VMOVUPS(q4Values(), g.table)
	case g.w == q4:
		VMOVUPS(q4Bytes(), g.table)
	case g.is512():
		VMOVUPS(mxValues(), g.table)
	default:
		VMOVUPS(mxDoubled(), g.table)
	}
}

// magnitudes of the codes of MXFP4, doubled to be whole.
var magnitudes = []int8{0, 1, 2, 3, 4, 6, 8, 12}

// mxValues are half the values of the codes: the scales are twice what they
// should be. Minus zero is zero.
func mxValues() Mem {
	return table("mx_values", 16, func(i int) Constant { return U32(bits(float32(mxDoubledValue(i)) / 4)) })
}

// mxDoubled are twice the values of the codes as bytes.
func mxDoubled() Mem {
	return table("mx_doubled", 32, func(i int) Constant { return U8(uint8(mxDoubledValue(i % 16))) })
}

func mxDoubledValue(code int) int8 {
	if code >= 8 {
		return -magnitudes[code-8]
	}
	return magnitudes[code]
}

// loadScales fills the scales of all groups and moves on to the next block's.
func (g *tileGen) loadScales(args reg.GPVirtual) {
	size := map[weights]int{mxfp4: 1, fp8: 4, q8: 2, q4: 2}[g.w] // of a scale
	var stride reg.GPVirtual
	at := g.scalep
	if g.panels() > 1 {
		stride, at = field(args, argScaleStride), GP64()
		MOVQ(g.scalep, at)
	}
	for i, pair := range g.scales {
		_, offset := g.place(i)
		if i > 0 && offset == 0 {
			ADDQ(stride, at)
		}
		for half, v := range pair {
			g.loadScale(Mem{Base: at, Disp: (offset/4 + 16*half) * size}, v)
		}
	}
	ADDQ(U32(32*size), g.scalep)
}

func (g *tileGen) loadScale(m Mem, v reg.VecPhysical) {
	switch g.w {
	case fp8:
		VMOVUPS(m, v)
		VMULPS(constant("256"), v, v)
		return
	case q8, q4:
		g.loadStep(m, v)
		return
	}
	VPMOVZXBD(m, v)
	VPSLLD(U8(23), v, v)
	if !g.is512() {
		VMULPS(constant("quarter"), v, v)
	}
}

// mxTurn adds four inputs: 64 bytes a panel, a word for each pair of outputs.
func (g *tileGen) mxTurn() {
	for i := range g.groups {
		panel, offset := g.place(i)
		if offset == 0 {
			PREFETCHT0(g.wAt(g.wp, panel, prefetchAhead))
		}
		VMOVUPS(g.wAt(g.wp, panel, offset), g.codes)
		if !g.is512() {
			g.mxBytes()
		}
		for u := range mxTurn {
			switch {
			case g.is512():
				g.mxLookUp(u)
			case g.w == q4:
				g.toFloats(u)
			default:
				g.mxConvert(u)
			}
			g.addStep(i, u)
		}
	}
	ADDQ(U8(64), g.wp)
	g.advance(mxTurn)
}

// mxLookUp decodes by the lowest four bits of each word, shifting the next ones there.
func (g *tileGen) mxLookUp(u int) {
	VPERMPS(g.table, g.codes, g.lo)
	VPSRLD(U8(4), g.codes, g.codes)
	VPERMPS(g.table, g.codes, g.hi)
	if u < mxTurn-1 {
		VPSRLD(U8(4), g.codes, g.codes)
	}
}

// mxBytes turns the codes into their values in bytes: in codes those of
// outputs j, in high those of outputs j+16.
func (g *tileGen) mxBytes() {
	VPSRLD(U8(4), g.codes, g.hi)
	VPAND(constant("nibbles"), g.codes, g.codes)
	VPAND(constant("nibbles"), g.hi, g.hi)
	VPSHUFB(g.codes, g.table, g.codes)
	VPSHUFB(g.hi, g.table, g.high)
}

// mxConvert takes byte u of each word.
func (g *tileGen) mxConvert(u int) {
	for _, c := range []struct{ from, to reg.VecPhysical }{{g.codes, g.lo}, {g.high, g.hi}} {
		from := c.from
		if u < 3 {
			VPSLLD(U8(24-8*u), from, c.to)
			from = c.to
		}
		VPSRAD(U8(24), from, c.to)
		VCVTDQ2PS(c.to, c.to)
	}
}

// fp8Turn adds one input: 32 bytes a panel, a word for each pair of outputs.
// A code moved to the exponent and mantissa of a binary16 has 1/256 of its value there.
func (g *tileGen) fp8Turn() {
	for i := range g.groups {
		panel, offset := g.place(i)
		if offset == 0 {
			PREFETCHT0(g.wAt(g.wp, panel, prefetchAhead))
		}
		codes, other, mask := half(g.codes), half(g.lo), half(g.table)
		VMOVUPS(g.wAt(g.wp, panel, offset/2), codes)
		VPSLLW(U8(8), codes, other)
		VPSRAW(U8(1), codes, codes)
		VPSRAW(U8(1), other, other)
		g.and(mask, codes, codes)
		g.and(mask, other, other)
		VCVTPH2PS(codes, g.hi)
		VCVTPH2PS(other, g.lo)
		g.addStep(i, 0)
	}
	ADDQ(U8(32), g.wp)
	g.advance(1)
}

// half is the lower half of a register.
func half(v reg.VecPhysical) reg.VecPhysical {
	if v.Size() == 64 {
		return v.AsY().(reg.VecPhysical)
	}
	return v.AsX().(reg.VecPhysical)
}

// addStep scales the weights in lo and hi and adds them to a group's chains
// with what input u of the turn is in each row.
func (g *tileGen) addStep(group, u int) {
	VMULPS(g.scales[group][0], g.lo, g.lo)
	VMULPS(g.scales[group][1], g.hi, g.hi)
	for r := range g.rows {
		b := g.broadcast[0]
		VBROADCASTSS(g.xAt(r, u), b)
		VFMADD231PS(b, g.lo, g.acc[r][group][0])
		VFMADD231PS(b, g.hi, g.acc[r][group][1])
	}
}
