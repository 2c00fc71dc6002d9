package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Weights of which rows are rounded, too: products are of whole numbers.
const (
	w8a8 weights = "W8A8"
	w4a8 weights = "W4A8"
)

// dots are tiles of rows by groups for rounded rows. A row's output has a float and an integer
// accumulator, so that fewer rows fit than elsewhere.
var dots = map[string][]shape{
	"avx512": {
		{1, 4}, {1, 2}, {1, 1}, {2, 2}, {2, 1}, {3, 2}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1},
	},
	"avx2": {{1, 1}, {2, 1}},
}

// A group of a rounded row: its codes, its scale, its correction, in words.
const (
	roundedScale = 8
	roundedSum   = 9
	roundedWords = 10
)

func dotsName(m machine, w weights, rows, groups int) string {
	return fmt.Sprintf("%s%sR%dG%d", m.name, w, rows, groups)
}

// dotsGen writes a tile for rounded rows.
type dotsGen struct {
	tileGen
	whole           [][][2]reg.VecPhysical // integer accumulators, as acc
	tmp, b          reg.VecPhysical        // AVX2: a product, and what is broadcast
	size            [2]reg.VecPhysical     // AVX2: magnitudes of lo and hi
	scalep          reg.GPVirtual
	sStride, sTwice reg.GPVirtual
}

func dotsKernel(m machine, w weights, rows, groups int) {
	g := &dotsGen{tileGen: tileGen{machine: m, w: w, rows: rows, groups: groups, perHead: rows}}
	TEXT(dotsName(m, w, rows, groups), NOSPLIT, "func(a *byte)")
	Pragma("noescape")
	g.assign()
	args := Load(Param("a"), GP64()).(reg.GPVirtual)
	g.loadArgs(args)
	g.scalep = field(args, argScales)
	if g.panels() > 1 {
		g.sStride = field(args, argScaleStride)
	}
	if g.panels() > 3 {
		g.sTwice = GP64()
		LEAQ(Mem{Base: g.sStride, Index: g.sStride, Scale: 2}, g.sTwice)
	}
	for _, row := range g.acc {
		for _, pair := range row {
			g.zero(pair[0])
			g.zero(pair[1])
		}
	}
	if w == w4a8 {
		value := uint32(0xf0f0f0f0)
		if !m.is512() {
			value = 0x0f0f0f0f
		}
		bits := GP32()
		MOVL(U32(value), bits)
		VMOVD(bits, g.mask.AsX())
		VPBROADCASTD(g.mask.AsX(), g.mask)
	}
	Label("group")
	g.beginGroup()
	for u := range roundedScale {
		g.addWords(u)
	}
	g.endGroup()
	ADDQ(U32(map[weights]uint32{w8a8: 1024, w4a8: 512}[w]), g.wp)
	ADDQ(U8(64), g.scalep)
	g.advance(roundedWords)
	DECQ(g.k)
	JNZ(LabelRef("group"))
	g.store(args)
	VZEROUPPER()
	RET()
}

func (g *dotsGen) assign() {
	free := g.vector
	take := func() (v reg.VecPhysical) { v, free = free[0], free[1:]; return v }
	pairs := func() (all [][][2]reg.VecPhysical) {
		for range g.rows {
			var row [][2]reg.VecPhysical
			for range g.groups {
				row = append(row, [2]reg.VecPhysical{take(), take()})
			}
			all = append(all, row)
		}
		return all
	}
	g.acc, g.whole = pairs(), pairs()
	g.lo, g.hi = take(), take()
	if g.w == w4a8 {
		g.mask = take()
	}
	if !g.is512() {
		g.tmp, g.b = take(), take()
		if g.w == w8a8 {
			g.size = [2]reg.VecPhysical{take(), take()}
		}
	}
}

// beginGroup sets the integer accumulators to what takes back that weights are not negative here.
// AVX2's of W8A8 are as they are.
func (g *dotsGen) beginGroup() {
	for r, row := range g.whole {
		for _, pair := range row {
			for _, v := range pair {
				if !g.is512() && g.w == w8a8 {
					g.zero(v)
					continue
				}
				VPBROADCASTD(g.xAt(r, roundedSum), v)
				if !g.is512() {
					VPSRAD(U8(4), v, v)
				}
			}
		}
	}
}

// addWords adds four inputs.
func (g *dotsGen) addWords(u int) {
	for i := range g.groups {
		g.loadCodes(i, u)
		for r := range g.rows {
			if g.is512() {
				VPDPBUSD_BCST(g.xAt(r, u), g.lo, g.whole[r][i][0])
				VPDPBUSD_BCST(g.xAt(r, u), g.hi, g.whole[r][i][1])
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
				VPADDD(g.tmp, g.whole[r][i][half], g.whole[r][i][half])
			}
		}
	}
}

// loadCodes fills lo and hi with the weights of four inputs, an output's in a word.
func (g *dotsGen) loadCodes(i, u int) {
	panel, offset := g.place(i)
	if g.w == w8a8 {
		if offset == 0 {
			PREFETCHT0(g.wAt(g.wp, panel, 128*u+prefetchAhead))
			PREFETCHT0(g.wAt(g.wp, panel, 128*u+64+prefetchAhead))
		}
		VMOVUPS(g.wAt(g.wp, panel, 128*u+offset), g.lo)
		VMOVUPS(g.wAt(g.wp, panel, 128*u+offset+64), g.hi)
		if !g.is512() {
			for half, v := range []reg.VecPhysical{g.lo, g.hi} {
				VPXOR(constant("highs"), v, v)
				VPABSB(v, g.size[half])
			}
		}
		return
	}
	if offset == 0 {
		PREFETCHT0(g.wAt(g.wp, panel, 64*u+prefetchAhead))
	}
	VMOVUPS(g.wAt(g.wp, panel, 64*u+offset), g.hi)
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

// endGroup adds the group's whole numbers, scaled, to the chains.
func (g *dotsGen) endGroup() {
	for i := range g.groups {
		panel, offset := g.place(i)
		for half := range 2 {
			VPMOVZXWD(g.scaleAt(panel, offset/2+32*half), g.lo)
			VPSLLD(U8(16), g.lo, g.lo)
			for r := range g.rows {
				v := g.whole[r][i][half]
				if g.is512() {
					VMULPS_BCST(g.xAt(r, roundedScale), g.lo, g.hi)
				} else {
					VBROADCASTSS(g.xAt(r, roundedScale), g.b)
					VMULPS(g.b, g.lo, g.hi)
					if g.w == w4a8 {
						VPSLLD(U8(4), v, v)
					}
				}
				VCVTDQ2PS(v, v)
				VFMADD231PS(g.hi, v, g.acc[r][i][half])
			}
		}
	}
}

func (g *dotsGen) scaleAt(panel, disp int) Mem {
	m := Mem{Base: g.scalep, Disp: disp}
	switch panel {
	case 1:
		m.Index, m.Scale = g.sStride, 1
	case 2:
		m.Index, m.Scale = g.sStride, 2
	case 3:
		m.Index, m.Scale = g.sTwice, 1
	}
	return m
}

// writeDots writes the Go switches of these tiles.
func writeDots(b *strings.Builder, machines ...machine) {
	for _, m := range machines {
		for _, w := range []weights{w8a8, w4a8} {
			writeSwitch(b, m.name+string(w), dots[m.name], func(s shape) string { return dotsName(m, w, s.rows, s.groups) })
		}
	}
}

// roundKernel rounds n groups of 32 values: see Rounded in package cpu. It has AVX2's registers,
// and so has its use beside AVX-512: wider ones gain nothing on what is mostly sums across lanes.
func roundKernel() {
	TEXT("avx2Round", NOSPLIT, "func(dst *byte, x *float32, n int)")
	Pragma("noescape")
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
	VMOVSS(nan(), reg.X6)
	CMPL(top, U32(0x7f800000))
	JCC(LabelRef("flat"))
	VXORPS(reg.X6, reg.X6, reg.X6)
	CMPL(top, U32(bits(0x1p-100)))
	JCS(LabelRef("flat"))
	VMOVSS(most(), reg.X7)
	VDIVSS(reg.X7, reg.X5, reg.X6)
	VDIVSS(reg.X5, reg.X7, reg.X7)
	VBROADCASTSS(reg.X7, reg.Y7)
	for _, v := range values {
		VMULPS(reg.Y7, v, v)
		VCVTPS2DQ(v, v)
	}
	VPADDD(reg.Y0, reg.Y1, reg.Y4)
	VPADDD(reg.Y2, reg.Y3, reg.Y5)
	VPADDD(reg.Y4, reg.Y5, reg.Y5)
	across(reg.Y5, reg.Y4, func(a, b, to reg.VecPhysical) { VPADDD(a, b, to) })
	VPSLLD(U8(7), reg.X5, reg.X5)
	VPXOR(reg.X4, reg.X4, reg.X4)
	VPSUBD(reg.X5, reg.X4, reg.X5)
	VPACKSSDW(reg.Y1, reg.Y0, reg.Y0)
	VPACKSSDW(reg.Y3, reg.Y2, reg.Y2)
	VPACKSSWB(reg.Y2, reg.Y0, reg.Y0)
	VMOVDQU(packedOrder(), reg.Y4)
	VPERMD(reg.Y0, reg.Y4, reg.Y0)
	Label("put")
	VMOVDQU(reg.Y0, Mem{Base: dst})
	VMOVSS(reg.X6, Mem{Base: dst, Disp: 4 * roundedScale})
	VMOVD(reg.X5, Mem{Base: dst, Disp: 4 * roundedSum})
	ADDQ(U8(4*roundedWords), dst)
	SUBQ(I8(-128), x)
	DECQ(n)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
	Label("flat")
	VPXOR(reg.Y0, reg.Y0, reg.Y0)
	VPXOR(reg.X5, reg.X5, reg.X5)
	JMP(LabelRef("put"))
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

func nan() Mem {
	m := GLOBL("round_nan", RODATA|NOPTR)
	DATA(0, U32(0x7fc00000))
	return m
}

func most() Mem {
	m := GLOBL("round_most", RODATA|NOPTR)
	DATA(0, U32(bits(127)))
	return m
}

// packedOrder undoes that packing goes by halves of a register.
func packedOrder() Mem {
	m := GLOBL("round_order", RODATA|NOPTR)
	for i, from := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(from))
	}
	return m
}
