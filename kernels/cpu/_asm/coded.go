package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Weights that are whole codes times the scale of a group, plus its offset; see coded.go of
// package cpu. Scales and offsets lie beside each other as floats: 32 of each for a group.
const (
	coded4 weights = "Coded4"
	coded8 weights = "Coded8"
)

// codedShapes are tiles for few rows; more rows meet weights that are decoded first.
var codedShapes = map[string][]shape{
	"avx512": {{1, 4}, {1, 2}, {1, 1}, {2, 2}, {2, 1}, {3, 2}, {3, 1}, {4, 2}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}},
	"avx2":   {{1, 2}, {2, 1}, {3, 1}, {4, 1}},
}

func codedKernels() {
	for _, m := range []machine{wide, narrow} {
		for _, w := range []weights{coded4, coded8} {
			for _, s := range codedShapes[m.name] {
				g := &codedGen{tileGen: tileGen{machine: m, w: w, rows: s.rows, groups: s.groups, perHead: s.rows}}
				g.kernel(tileName(m, w, s.rows, s.groups), g.addCoded)
			}
			g := &codedGen{tileGen: tileGen{machine: m, w: w, groups: 64 / m.width, perHead: 1}}
			g.kernel(decodeName(m, w), g.storeDecoded)
		}
	}
	expandSteps()
	expandPairs()
	expandZeros()
	expandSubs(false)
	expandSubs(true)
}

func decodeName(m machine, w weights) string {
	return m.name + "Decode" + strings.TrimPrefix(string(w), "Coded")
}

// codedGen writes a tile, or what decodes a panel where it has no rows.
type codedGen struct {
	tileGen
	offsets [][2]reg.VecPhysical // as scales; AVX2 has no registers for them
	dst     reg.GPVirtual        // of decoded weights
	sStride reg.GPVirtual
	each    func(group, u int) // uses the weights in lo and hi
}

func (g *codedGen) kernel(name string, each func(group, u int)) {
	g.each = each
	begin(name, "func(a *byte)")
	g.assign()
	args := parameter("a")
	g.loadArgs(args)
	g.step, g.scalep = field(args, argStep), field(args, argScales)
	if g.panels() > 1 {
		g.sStride = field(args, argScaleStride)
	}
	if g.w == coded4 && g.is512() {
		VMOVUPS(unsignedValues(), g.table)
	}
	if g.rows > 0 {
		g.begin(args)
	} else {
		g.dst = field(args, argDst)
	}
	g.loopGroups()
	if g.rows > 0 {
		g.store(args)
	}
	end()
}

func (g *codedGen) assign() {
	free := g.vector
	take := taker(&free)
	g.assignRows(take)
	for range g.groups {
		g.scales = append(g.scales, [2]reg.VecPhysical{take(), take()})
		if g.is512() {
			g.offsets = append(g.offsets, [2]reg.VecPhysical{take(), take()})
		}
	}
	if g.w == coded4 {
		g.codes = take()
		if g.is512() {
			g.table = take()
		} else {
			g.high = take()
		}
	}
	g.broadcast = free[:1]
}

// loopGroups goes through groups of step turns of four inputs, of which k counts all.
func (g *codedGen) loopGroups() {
	left := GP64()
	Label("group")
	g.loadGroup()
	MOVQ(g.step, left)
	CMPQ(g.k, left)
	CMOVQLT(g.k, left)
	SUBQ(left, g.k)
	Label("turn")
	if g.w == coded4 {
		g.turn4()
	} else {
		g.eachByte(g.use)
	}
	if g.rows > 0 {
		g.advance(mxTurn)
	} else {
		ADDQ(U32(128*mxTurn), g.dst)
	}
	DECQ(left)
	JNZ(LabelRef("turn"))
	TESTQ(g.k, g.k)
	JG(LabelRef("group"))
}

// loadGroup loads scales and offsets of all panels, and moves on to the next group's.
func (g *codedGen) loadGroup() {
	at := g.scalep
	for i := range g.groups {
		_, offset := g.place(i)
		if i > 0 && offset == 0 {
			next := GP64()
			LEAQ(Mem{Base: at, Index: g.sStride, Scale: 1}, next)
			at = next
		}
		for half := range 2 {
			VMOVUPS(Mem{Base: at, Disp: offset + 64*half}, g.scales[i][half])
			if g.is512() {
				VMOVUPS(Mem{Base: at, Disp: 128 + offset + 64*half}, g.offsets[i][half])
			} else if g.w == coded4 {
				VMULPS(constant("two_24"), g.scales[i][half], g.scales[i][half]) // toFloats leaves codes in the highest byte
			}
		}
	}
	ADDQ(U32(256), g.scalep)
}

// turn4 takes four inputs: 64 bytes a panel, laid out as MXFP4's.
func (g *codedGen) turn4() {
	for i := range g.groups {
		panel, offset := g.place(i)
		if offset == 0 {
			PREFETCHT0(g.wAt(g.wp, panel, prefetchAhead))
		}
		VMOVUPS(g.wAt(g.wp, panel, offset), g.codes)
		if !g.is512() {
			VPSRLD(U8(4), g.codes, g.high)
			VPAND(constant("nibbles"), g.codes, g.codes)
			VPAND(constant("nibbles"), g.high, g.high)
		}
		for u := range mxTurn {
			if g.is512() {
				g.mxLookUp(u)
			} else {
				g.toFloats(u)
			}
			g.use(i, u)
		}
	}
	ADDQ(U8(64), g.wp)
}

// use makes weights of the codes in lo and hi.
func (g *codedGen) use(group, u int) {
	for half, v := range []reg.VecPhysical{g.lo, g.hi} {
		if g.is512() {
			VFMADD213PS(g.offsets[group][half], g.scales[group][half], v)
			continue
		}
		_, offset := g.place(group)
		VFMADD213PS(Mem{Base: g.scalep, Disp: offset + 64*half - 128}, g.scales[group][half], v) // behind which scalep is
	}
	g.each(group, u)
}

func (g *codedGen) addCoded(group, u int) {
	for r := range g.rows {
		b := g.broadcast[0]
		VBROADCASTSS(g.xAt(r, u), b)
		VFMADD231PS(b, g.lo, g.acc[r][group][0])
		VFMADD231PS(b, g.hi, g.acc[r][group][1])
	}
}

func (g *codedGen) storeDecoded(group, u int) {
	_, offset := g.place(group)
	VMOVUPS(g.lo, Mem{Base: g.dst, Disp: 128*u + offset})
	VMOVUPS(g.hi, Mem{Base: g.dst, Disp: 128*u + offset + 64})
}

func unsignedValues() Mem {
	return table("unsigned_values", 16, func(i int) Constant { return U32(bits(float32(i))) })
}

// expander writes a function that makes scales and offsets of so many groups of a panel, in
// vectors of eight outputs, of what lies at tops and subs.
type expander struct {
	dst, tops, subs, groups reg.Register
}

func newExpander(name string) expander {
	begin(name, "func(dst *float32, tops *uint16, subs *byte, groups int)")
	return expander{Load(Param("dst"), GP64()), Load(Param("tops"), GP64()), Load(Param("subs"), GP64()), Load(Param("groups"), GP64())}
}

// loop calls f for each group, which moves on by so many bytes of tops and subs.
func (e expander) loop(tops, subs int, f func(quarter int)) {
	Label("group")
	for quarter := range 4 {
		f(quarter)
	}
	ADDQ(U32(256), e.dst)
	if tops > 0 {
		ADDQ(U32(uint32(tops)), e.tops)
	}
	if subs > 0 {
		ADDQ(U32(uint32(subs)), e.subs)
	}
	DECQ(e.groups)
	JNZ(LabelRef("group"))
	end()
}

// half loads eight floats from numbers of 16 bits.
func (e expander) half(to reg.VecPhysical, quarter, disp int) reg.VecPhysical {
	VCVTPH2PS(Mem{Base: e.tops, Disp: disp + 16*quarter}, to)
	return to
}

func (e expander) whole(to reg.VecPhysical, quarter, disp int) reg.VecPhysical {
	VPMOVSXBD(Mem{Base: e.subs, Disp: disp + 8*quarter}, to)
	VCVTDQ2PS(to, to)
	return to
}

func (e expander) put(scale, offset reg.VecPhysical, quarter int) {
	VMOVUPS(scale, Mem{Base: e.dst, Disp: 32 * quarter})
	VMOVUPS(offset, Mem{Base: e.dst, Disp: 128 + 32*quarter})
}

// expandSteps: the offset is the scale times the float at subs.
func expandSteps() {
	e := newExpander("avx2ExpandSteps")
	VBROADCASTSS(Mem{Base: e.subs}, reg.Y3)
	e.loop(64, 0, func(quarter int) {
		s := e.half(reg.Y0, quarter, 0)
		VMULPS(reg.Y3, s, reg.Y1)
		e.put(s, reg.Y1, quarter)
	})
}

// expandPairs: both are stored.
func expandPairs() {
	e := newExpander("avx2ExpandPairs")
	e.loop(128, 0, func(quarter int) { e.put(e.half(reg.Y0, quarter, 0), e.half(reg.Y1, quarter, 64), quarter) })
}

// expandZeros: the offset is the scale times a byte.
func expandZeros() {
	e := newExpander("avx2ExpandZeros")
	e.loop(64, 32, func(quarter int) {
		s, o := e.half(reg.Y0, quarter, 0), e.whole(reg.Y1, quarter, 0)
		VMULPS(s, o, o)
		e.put(s, o, quarter)
	})
}

// expandSubs: the scale is a byte times what the groups share, and the offset is so, too, or zero.
func expandSubs(mins bool) {
	name, subs := "avx2ExpandSubs", 32
	if mins {
		name, subs = "avx2ExpandSubsMins", 64
	}
	e := newExpander(name)
	VXORPS(reg.Y1, reg.Y1, reg.Y1)
	for quarter := range 4 {
		e.half(ys()[4+quarter], quarter, 0)
		if mins {
			e.half(ys()[8+quarter], quarter, 64)
		}
	}
	e.loop(0, subs, func(quarter int) {
		s := e.whole(reg.Y0, quarter, 0)
		VMULPS(ys()[4+quarter], s, s)
		if mins {
			o := e.whole(reg.Y1, quarter, 32)
			VMULPS(ys()[8+quarter], o, o)
		}
		e.put(s, reg.Y1, quarter)
	})
}

func writeCodedDispatch(path string) {
	b := &strings.Builder{}
	b.WriteString("// Code generated by _asm. DO NOT EDIT.\n\npackage cpu\n\nimport \"unsafe\"\n")
	for _, m := range []machine{wide, narrow} {
		for _, w := range []weights{coded4, coded8} {
			writeSwitch(b, m.name+string(w), codedShapes[m.name], func(s shape) string { return tileName(m, w, s.rows, s.groups) })
			fmt.Fprintf(b, "\nfunc %sPanel(args *tileArgs) { %s((*byte)(unsafe.Pointer(args))) }\n", decodeName(m, w), decodeName(m, w))
		}
	}
	write(path, b)
}
