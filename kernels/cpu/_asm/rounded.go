package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Weights of which rows are rounded, too: products are of whole numbers. Codes of 16 inputs share a scale
// in byHalves, which has 6 bits of each, and of 32 otherwise.
const (
	w8a8     weights = "W8A8"
	w4a8     weights = "W4A8"
	byHalves weights = "ByHalves"
)

var allDots = []weights{w8a8, w4a8, byHalves}

// dots are tiles of rows by a panel, or half of one. A row's output has a float and an integer
// accumulator, so that fewer rows fit than elsewhere; a second panel a call gains nothing.
var dots = map[string][]shape{
	"avx512": {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}},
	"avx2":   {{1, 1}, {2, 1}},
}

// A group of a rounded row: its codes, its scale, its correction, those of its halves, and its sum, in words.
const (
	roundedScale = 8
	roundedSum   = 9
	roundedHalf  = 10
	roundedFloat = 12
	roundedWords = 13
)

// How scales lie, in the field of the step: see dots.go of package cpu. From withOffsets on, weights have offsets.
const (
	stepsBF16 = iota
	stepsHalf
	scalesFloat
	subsMins
	withOffsets = scalesFloat
)

// spanGroups are the groups of 32 inputs that share steps and mins of float16.
const spanGroups = 8

type dotsGen struct {
	tileGen
	whole      [][2]reg.VecPhysical // integer accumulators of a row
	scale      [2]reg.VecPhysical   // of lo's outputs and hi's; the first is lo
	tmp, b     reg.VecPhysical      // AVX2: a product, and what is broadcast
	size       [2]reg.VecPhysical   // AVX2: magnitudes of lo and hi
	sums       reg.VecPhysical      // AVX2: which bits of corrections count, W4A8
	scalep     reg.GPVirtual
	kind, tops reg.GPVirtual
	span       reg.GPVirtual // groups until the next steps and mins
}

func dotsKernel(m machine, w weights, rows, groups int) {
	g := &dotsGen{tileGen: tileGen{machine: m, w: w, rows: rows, groups: groups, perHead: rows}}
	begin(tileName(m, w, rows, groups), "func(a *byte)")
	g.assign()
	args := parameter("a")
	g.loadArgs(args)
	g.scalep, g.kind, g.tops, g.span = field(args, argScales), field(args, argStep), field(args, argTops), GP64()
	MOVQ(U32(spanGroups), g.span)
	g.begin(args)
	if w != w8a8 {
		g.maskNibbles()
	}
	Label("group")
	if w == byHalves {
		g.group(roundedHalf, 0, roundedScale/2)
		g.group(roundedHalf+1, roundedScale/2, roundedScale)
	} else {
		g.group(roundedSum, 0, roundedScale)
	}
	ADDQ(U32(map[weights]uint32{w8a8: 1024, w4a8: 512, byHalves: 768}[w]), g.wp)
	g.advance(roundedWords)
	DECQ(g.k)
	JNZ(LabelRef("group"))
	g.store(args)
	end()
}

func (g *dotsGen) assign() {
	free := g.vector
	take := taker(&free)
	for range g.rows {
		g.acc = append(g.acc, [][2]reg.VecPhysical{{take(), take()}})
		g.whole = append(g.whole, [2]reg.VecPhysical{take(), take()})
	}
	g.lo, g.hi = take(), take()
	g.scale = [2]reg.VecPhysical{g.lo, take()}
	if g.w != w8a8 {
		g.mask = take()
	}
	if g.is512() {
		return
	}
	g.tmp, g.b = take(), take()
	switch g.w {
	case w4a8:
		g.sums = take()
	case w8a8:
		g.size = [2]reg.VecPhysical{take(), take()}
	}
}

// maskNibbles fills the mask of codes, and reports whether corrections count: where weights have offsets, the least
// code is zero.
func (g *dotsGen) maskNibbles() {
	value := uint32(0x0f0f0f0f)
	if g.is512() && g.w == w4a8 {
		value = 0xf0f0f0f0
	}
	fillWords(value, g.mask)
	if g.w != w4a8 {
		return
	}
	count := GP64()
	MOVQ(g.kind, count)
	SUBQ(U8(withOffsets), count)
	SARQ(U8(63), count)
	if g.is512() {
		KMOVW(count.As32(), reg.K1)
		return
	}
	VMOVD(count.As32(), g.sums.AsX())
	VPBROADCASTD(g.sums.AsX(), g.sums)
}

// group adds words [from, to) of rows' codes, which share the weights' scales; the word at sum takes back that
// weights are not negative here.
func (g *dotsGen) group(sum, from, to int) {
	g.beginGroup(sum)
	for u := from; u < to; u++ {
		g.addWords(u)
	}
	if g.w == byHalves {
		g.subScales(0, 0)
		g.addScaled()
		ADDQ(U8(panelWidth), g.scalep)
		if to == roundedScale {
			g.nextSpan(2 * panelWidth)
		}
		return
	}
	g.loadScales()
	g.addScaled()
	CMPQ(g.kind, U8(withOffsets))
	JCS(LabelRef("next"))
	g.loadOffsets()
	g.addOffsets()
	Label("next")
}

// beginGroup sets the integer accumulators. AVX2's weights in bytes are as they are.
func (g *dotsGen) beginGroup(sum int) {
	for r, pair := range g.whole {
		for _, v := range pair {
			switch {
			case g.is512() && g.w == w4a8:
				VPBROADCASTD_Z(g.xAt(r, sum), reg.K1, v)
			case g.is512():
				VPBROADCASTD(g.xAt(r, sum), v)
			case g.w == byHalves:
				VPBROADCASTD(g.xAt(r, sum), v)
			case g.w == w4a8:
				VPBROADCASTD(g.xAt(r, sum), v)
				VPSRAD(U8(4), v, v)
				VPAND(g.sums, v, v)
			default:
				g.zero(v)
			}
		}
	}
}

func (g *dotsGen) addWords(u int) {
	g.loadCodes(u)
	for r := range g.rows {
		if g.is512() {
			VPDPBUSD_BCST(g.xAt(r, u), g.lo, g.whole[r][0])
			VPDPBUSD_BCST(g.xAt(r, u), g.hi, g.whole[r][1])
			continue
		}
		VPBROADCASTD(g.xAt(r, u), g.b)
		for half, v := range []reg.VecPhysical{g.lo, g.hi} {
			if g.w == w8a8 {
				VPSIGNB(v, g.b, g.tmp)
				VPMADDUBSW(g.tmp, g.size[half], g.tmp)
			} else {
				VPMADDUBSW(g.b, v, g.tmp)
			}
			VPMADDWD(constant("ones16"), g.tmp, g.tmp)
			VPADDD(g.tmp, g.whole[r][half], g.whole[r][half])
		}
	}
}

// loadCodes fills lo and hi with the weights of four inputs, an output's in a word.
func (g *dotsGen) loadCodes(u int) {
	switch g.w {
	case byHalves:
		g.loadSixes(u/4*6*64, u%4)
		return
	case w8a8:
		PREFETCHT0(Mem{Base: g.wp, Disp: 128*u + prefetchAhead})
		PREFETCHT0(Mem{Base: g.wp, Disp: 128*u + 64 + prefetchAhead})
		VMOVUPS(Mem{Base: g.wp, Disp: 128 * u}, g.lo)
		VMOVUPS(Mem{Base: g.wp, Disp: 128*u + 64}, g.hi)
		if !g.is512() {
			for half, v := range []reg.VecPhysical{g.lo, g.hi} {
				VPXOR(constant("highs"), v, v)
				VPABSB(v, g.size[half])
			}
		}
		return
	}
	PREFETCHT0(Mem{Base: g.wp, Disp: 64*u + prefetchAhead})
	VMOVUPS(Mem{Base: g.wp, Disp: 64 * u}, g.hi)
	if g.is512() {
		VPSLLD(U8(4), g.hi, g.lo)
		VPANDD(g.mask, g.lo, g.lo)
		VPANDD(g.mask, g.hi, g.hi)
		return
	}
	VPAND(g.mask, g.hi, g.lo)
	VPSRLD(U8(4), g.hi, g.hi)
	VPAND(g.mask, g.hi, g.hi)
}

// loadSixes is loadCodes of word u of 16 inputs: their lower four bits lie as W4A8's codes, and behind those the upper two bits
// of four words, the first one's lowest.
func (g *dotsGen) loadSixes(disp, u int) {
	PREFETCHT0(Mem{Base: g.wp, Disp: disp + 64*u + prefetchAhead})
	if u%2 == 0 {
		PREFETCHT0(Mem{Base: g.wp, Disp: disp + 256 + 32*u + prefetchAhead})
	}
	VMOVUPS(Mem{Base: g.wp, Disp: disp + 64*u}, g.hi)
	g.and(g.mask, g.hi, g.lo)
	VPSRLD(U8(4), g.hi, g.hi)
	g.and(g.mask, g.hi, g.hi)
	t := g.scale[1]
	for half, v := range []reg.VecPhysical{g.lo, g.hi} {
		VMOVUPS(Mem{Base: g.wp, Disp: disp + 256 + 64*half}, t)
		switch {
		case u < 2:
			VPSLLD(U8(uint8(4-2*u)), t, t)
		case u > 2:
			VPSRLD(U8(2), t, t)
		}
		if g.is512() {
			VPTERNLOGD(U8(0xf8), constant("crumbs"), t, v) // v | t & 0x30…
			continue
		}
		VPAND(constant("crumbs"), t, t)
		VPOR(t, v, v)
	}
}

// addScaled adds the whole numbers times scales to the chains.
func (g *dotsGen) addScaled() {
	for half := range 2 {
		for r := range g.rows {
			v := g.whole[r][half]
			if g.is512() {
				VMULPS_BCST(g.xAt(r, roundedScale), g.scale[half], g.hi)
			} else {
				VBROADCASTSS(g.xAt(r, roundedScale), g.b)
				VMULPS(g.b, g.scale[half], g.hi)
				if g.w == w4a8 {
					VPSLLD(U8(4), v, v)
				}
			}
			VCVTDQ2PS(v, v)
			VFMADD231PS(g.hi, v, g.acc[r][0][half])
		}
	}
}

func (g *dotsGen) addOffsets() {
	for half := range 2 {
		for r := range g.rows {
			if g.is512() {
				VFMADD231PS_BCST(g.xAt(r, roundedFloat), g.scale[half], g.acc[r][0][half])
				continue
			}
			VBROADCASTSS(g.xAt(r, roundedFloat), g.b)
			VFMADD231PS(g.b, g.scale[half], g.acc[r][0][half])
		}
	}
}

// roundKernel rounds n groups of 32 values: see Rounded in package cpu. It has AVX2's registers,
// and so has its use beside AVX-512: wider ones gain nothing on what is mostly sums across lanes.
func roundKernel() {
	begin("avx2Round", "func(dst *byte, x *float32, n int)")
	dst, x := Load(Param("dst"), GP64()), Load(Param("x"), GP64())
	n := Load(Param("n"), GP64())
	values := []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3}
	Label("group")
	for i, v := range values {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, v)
		VPAND(constant("abs"), v, reg.Y4)
		if i == 0 {
			VMOVDQA(reg.Y4, reg.Y5)
		} else {
			VPMAXUD(reg.Y4, reg.Y5, reg.Y5)
		}
	}
	across(reg.Y5, reg.Y4, func(a, b, to reg.VecPhysical) { VPMAXUD(a, b, to) })
	top := GP32()
	VMOVD(reg.X5, top)
	VMOVSS(table("round_nan", 1, func(int) Constant { return U32(0x7fc00000) }), reg.X6)
	CMPL(top, U32(0x7f800000))
	JCC(LabelRef("flat"))
	VXORPS(reg.X6, reg.X6, reg.X6)
	CMPL(top, U32(bits(0x1p-100)))
	JCS(LabelRef("flat"))
	VMOVSS(table("round_most", 1, func(int) Constant { return U32(bits(127)) }), reg.X7)
	VDIVSS(reg.X7, reg.X5, reg.X6)
	VDIVSS(reg.X5, reg.X7, reg.X7)
	VBROADCASTSS(reg.X7, reg.Y7)
	for _, v := range values {
		VMULPS(reg.Y7, v, v)
		VCVTPS2DQ(v, v)
	}
	sumsOfHalves()
	VPACKSSDW(reg.Y1, reg.Y0, reg.Y0)
	VPACKSSDW(reg.Y3, reg.Y2, reg.Y2)
	VPACKSSWB(reg.Y2, reg.Y0, reg.Y0)
	VMOVDQU(packedOrder(), reg.Y4)
	VPERMD(reg.Y0, reg.Y4, reg.Y0)
	Label("put")
	VMOVDQU(reg.Y0, Mem{Base: dst})
	VMOVSS(reg.X6, Mem{Base: dst, Disp: 4 * roundedScale})
	VMOVD(reg.X5, Mem{Base: dst, Disp: 4 * roundedSum})
	VMOVQ(reg.X7, Mem{Base: dst, Disp: 4 * roundedHalf})
	VMULSS(reg.X6, reg.X8, reg.X8)
	VMOVSS(reg.X8, Mem{Base: dst, Disp: 4 * roundedFloat})
	ADDQ(U8(4*roundedWords), dst)
	SUBQ(I8(-128), x)
	DECQ(n)
	JNZ(LabelRef("group"))
	end()
	Label("flat")
	VPXOR(reg.Y0, reg.Y0, reg.Y0)
	VPXOR(reg.X5, reg.X5, reg.X5)
	VPXOR(reg.X7, reg.X7, reg.X7)
	VPXOR(reg.X8, reg.X8, reg.X8)
	JMP(LabelRef("put"))
}

// sumsOfHalves leaves -128 times the sum of the codes in X5, -32 times those of both halves in X7, and the sum as a
// float in X8.
func sumsOfHalves() {
	VPADDD(reg.Y0, reg.Y1, reg.Y4)
	VPADDD(reg.Y2, reg.Y3, reg.Y5)
	VPHADDD(reg.Y5, reg.Y4, reg.Y4)
	VEXTRACTI128(U8(1), reg.Y4, reg.X5)
	VPADDD(reg.X5, reg.X4, reg.X4)
	VPHADDD(reg.X4, reg.X4, reg.X4)
	VPHADDD(reg.X4, reg.X4, reg.X5)
	VCVTDQ2PS(reg.X5, reg.X8)
	VPXOR(reg.X7, reg.X7, reg.X7)
	VPSLLD(U8(7), reg.X5, reg.X5)
	VPSUBD(reg.X5, reg.X7, reg.X5)
	VPSLLD(U8(5), reg.X4, reg.X4)
	VPSUBD(reg.X4, reg.X7, reg.X7)
}

// across leaves in v's lowest lane what op makes of all eight.
func across(v, t reg.VecPhysical, op func(a, b, to reg.VecPhysical)) {
	x, y := v.AsX().(reg.VecPhysical), t.AsX().(reg.VecPhysical)
	VEXTRACTI128(U8(1), v, y)
	op(x, y, x)
	VPSHUFD(U8(0x4e), x, y)
	op(x, y, x)
	VPSHUFD(U8(0xb1), x, y)
	op(x, y, x)
}

// packedOrder undoes that packing goes by halves of a register.
func packedOrder() Mem {
	return table("round_order", 8, func(i int) Constant { return U32([]uint32{0, 4, 1, 5, 2, 6, 3, 7}[i]) })
}
