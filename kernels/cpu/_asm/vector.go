package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// constants of exp32 in package cpu, each filling a vector.
var constants = map[string]uint32{
	"low": bits(-87.33), "high": bits(88), "magic": bits(0x1.8p23), "log2e": bits(0x1.715476p+0),
	"ln2High": bits(0x1.62e4p-1), "ln2Low": bits(0x1.7f7d1cp-20), "one": bits(1), "sign": 1 << 31,
	"c5": bits(1.9875691500e-4), "c4": bits(1.3981999507e-3), "c3": bits(8.3334519073e-3),
	"c2": bits(4.1665795894e-2), "c1": bits(1.6666665459e-1), "c0": bits(5.0000001201e-1),
	"bit": 1, "half": 0x7fff, "quiet": 0x40, "inf": 0x7f800000, "abs": 0x7fffffff,
	"256": bits(256), "quarter": bits(0.25), "sixteenth": bits(1.0 / 16), "two_24": bits(0x1p-24), "nibbles": 0x0f0f0f0f, "crumbs": 0x30303030,
	"ones16": 0x00010001, "highs": 0x80808080, "eights": 0x08080808,
	"sizes16": 0x7fff7fff, "fraction16": 0x007f007f, "hidden16": 0x00800080, "exponent16": 0xff80ff80,
	"minusAlpha": bits(-1.702), "minusInf": 0xff800000,
}

var placed = map[string]Mem{}

func bits(f float32) uint32 { return math.Float32bits(f) }

func constant(name string) Mem {
	value, known := constants[name]
	if !known {
		panic(name)
	}
	return table("fill_"+name, 16, func(int) Constant { return U32(value) })
}

// table places so many numbers of one size, when they are first asked for.
func table(name string, n int, number func(i int) Constant) Mem {
	m, ok := placed[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i := range n {
			v := number(i)
			DATA(i*v.Bytes(), v)
		}
		placed[name] = m
	}
	return m
}

// vectorKernels writes the kernels on vectors of a multiple of 16 values. A
// block of 16 is one wide or two narrow registers.
func vectorKernels(m machine) {
	v := vec{machine: m, parts: 64 / m.width}
	v.sumSquares()
	v.norm()
	v.scaleMax()
	v.max()
	v.tree()
	v.rope()
	v.expSum()
	v.swiGLU()
	v.clampedSwiGLU()
	v.add()
	v.scale()
	v.sum()
	v.sumCentred()
	v.layerNorm()
	v.gelu()
	v.geluTanh()
	v.toBF16()
	v.fromBF16()
}

type vec struct {
	machine
	parts int
	used  int
}

// reg takes the next register of the kernel being written.
func (v *vec) reg() reg.VecPhysical {
	v.used++
	return v.vector[v.used-1]
}

// kernel writes a loop over n values: setup, then body for every part of every
// block, then finish. pointers says by how many bytes each pointer advances a block.
func (v *vec) kernel(name, signature string, setup func(), body func(part int, p func(name string) Mem),
	finish func(), pointers map[string]int) {
	begin(v.name+name, signature)
	at := map[string]reg.Register{}
	for _, p := range []string{"dst", "x", "y", "w"} {
		if pointers[p] != 0 {
			at[p] = Load(Param(p), GP64())
		}
	}
	n := Load(Param("n"), GP64())
	v.used = 0
	setup()
	start := v.used
	SHRQ(U8(4), n)
	JZ(LabelRef("done"))
	Label("turn")
	for part := range v.parts {
		v.used = start
		body(part, func(p string) Mem {
			return Mem{Base: at[p], Disp: part * pointers[p] / v.parts}
		})
	}
	for _, p := range []string{"dst", "x", "y", "w"} {
		if pointers[p] != 0 {
			ADDQ(U8(pointers[p]), at[p])
		}
	}
	DECQ(n)
	JNZ(LabelRef("turn"))
	Label("done")
	finish()
	end()
}

func (v *vec) fill(param string) reg.VecPhysical {
	r := v.reg()
	a, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(a.Addr, r)
	return r
}

// lanesOf loads the sixteen running sums at the parameter acc.
func (v *vec) lanesOf() (sums []reg.VecPhysical, put func()) {
	acc := Load(Param("acc"), GP64())
	for part := range v.parts {
		sums = append(sums, v.reg())
		VMOVUPS(Mem{Base: acc, Disp: part * v.width}, sums[part])
	}
	return sums, func() {
		for part, s := range sums {
			VMOVUPS(s, Mem{Base: acc, Disp: part * v.width})
		}
	}
}

func nothing() {}

func (v *vec) sumSquares() {
	var sums []reg.VecPhysical
	var put func()
	v.kernel("SumSquares", "func(acc, x *float32, n int)", func() { sums, put = v.lanesOf() },
		func(part int, p func(string) Mem) {
			x := v.reg()
			VMOVUPS(p("x"), x)
			VFMADD231PS(x, x, sums[part])
		}, func() { put() }, map[string]int{"x": 64})
}

func (v *vec) norm() {
	var inv reg.VecPhysical
	v.kernel("Norm", "func(dst, x, w *float32, n int, inv float32)", func() { inv = v.fill("inv") },
		func(_ int, p func(string) Mem) {
			x := v.reg()
			VMULPS(p("x"), inv, x)
			VMULPS(p("w"), x, x)
			VMOVUPS(x, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 64, "w": 64})
}

// tops are the maximum of each lane, at first of none.
func (v *vec) tops() (tops []reg.VecPhysical) {
	for range v.parts {
		top := v.reg()
		VMOVUPS(constant("minusInf"), top)
		tops = append(tops, top)
	}
	return tops
}

// scaleMax returns the maximum; a NaN loses against what was there.
func (v *vec) scaleMax() {
	var tops []reg.VecPhysical
	var a reg.VecPhysical
	v.kernel("ScaleMax", "func(dst *float32, n int, a float32) float32",
		func() { tops = v.tops(); a = v.fill("a") },
		func(part int, p func(string) Mem) {
			x := v.reg()
			VMULPS(p("dst"), a, x)
			VMOVUPS(x, p("dst"))
			VMAXPS(tops[part], x, tops[part])
		}, func() { v.fold(tops, func(a, b, to reg.VecPhysical) { VMAXPS(a, b, to) }) }, map[string]int{"dst": 64})
}

// max is scaleMax of numbers that stay as they are.
func (v *vec) max() {
	var tops []reg.VecPhysical
	v.kernel("Max", "func(x *float32, n int) float32", func() { tops = v.tops() },
		func(part int, p func(string) Mem) {
			x := v.reg()
			VMOVUPS(p("x"), x)
			VMAXPS(tops[part], x, tops[part])
		}, func() { v.fold(tops, func(a, b, to reg.VecPhysical) { VMAXPS(a, b, to) }) }, map[string]int{"x": 64})
}

// tree adds sixteen sums in the order of tree in package cpu.
func (v *vec) tree() {
	begin(v.name+"Tree", "func(acc *float32) float32")
	v.used = 0
	sums, _ := v.lanesOf()
	v.fold(sums, func(a, b, to reg.VecPhysical) { VADDPS(a, b, to) })
	end()
}

// fold returns what op makes of sixteen lanes: each half's first lanes with its last ones, down to one.
func (v *vec) fold(lanes []reg.VecPhysical, op func(a, b, to reg.VecPhysical)) {
	all, other := lanes[0].AsY().(reg.VecPhysical), v.reg()
	if v.is512() {
		VEXTRACTF64X4(U8(1), lanes[0], other.AsY())
		op(other.AsY().(reg.VecPhysical), all, all)
	} else {
		op(lanes[1], all, all)
	}
	across(all, other.AsY().(reg.VecPhysical), op)
	to, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(all.AsX(), to.Addr)
}

// rope turns pairs of numbers of dst and w by the cosines x and the sines y.
func (v *vec) rope() {
	v.kernel("RoPE", "func(dst, x, y, w *float32, n int)", nothing,
		func(_ int, p func(string) Mem) {
			a, b, low, high, t := v.reg(), v.reg(), v.reg(), v.reg(), v.reg()
			VMOVUPS(p("dst"), a)
			VMOVUPS(p("w"), b)
			VMULPS(p("x"), a, low)
			VMULPS(p("y"), b, t)
			VSUBPS(t, low, low)
			VMULPS(p("x"), b, high)
			VMULPS(p("y"), a, t)
			VADDPS(t, high, high)
			VMOVUPS(low, p("dst"))
			VMOVUPS(high, p("w"))
		}, nothing, map[string]int{"dst": 64, "w": 64, "x": 64, "y": 64})
}

// exp turns x into e^x by the steps of exp32 in package cpu.
func (v *vec) exp(x reg.VecPhysical) {
	t, n, p := v.reg(), v.reg(), v.reg()
	low := v.below(x)
	VMOVUPS(constant("high"), n)
	VMINPS(x, n, x) // a NaN in x stays
	VMOVUPS(constant("log2e"), t)
	VFMADD213PS(constant("magic"), x, t)
	VSUBPS(constant("magic"), t, n)
	VFNMADD231PS(constant("ln2High"), n, x)
	VFNMADD231PS(constant("ln2Low"), n, x)
	VMOVUPS(constant("c5"), p)
	for _, c := range []string{"c4", "c3", "c2", "c1", "c0", "one", "one"} {
		VFMADD213PS(constant(c), x, p)
	}
	VPSLLD(U8(23), t, t)
	VPADDD(constant("one"), t, t)
	if v.is512() {
		VMULPS_Z(t, p, low.(reg.OpmaskPhysical), x)
		return
	}
	VMULPS(t, p, x)
	VANDNPS(x, low.(reg.VecPhysical), x)
}

// below compares x with the least argument: the lanes to clear (AVX2), or to keep (AVX-512).
func (v *vec) below(x reg.VecPhysical) reg.Register {
	if v.is512() {
		VCMPPS(U8(5), constant("low"), x, reg.K1) // not less than, or unordered
		return reg.K1
	}
	low := v.reg()
	VCMPPS(U8(1), constant("low"), x, low)
	return low
}

func (v *vec) expSum() {
	var sums []reg.VecPhysical
	var put func()
	var top reg.VecPhysical
	v.kernel("ExpSum", "func(acc, dst *float32, n int, top float32)",
		func() { sums, put = v.lanesOf(); top = v.fill("top") },
		func(part int, p func(string) Mem) {
			x := v.reg()
			VMOVUPS(p("dst"), x)
			VSUBPS(top, x, x)
			v.exp(x)
			VMOVUPS(x, p("dst"))
			VADDPS(x, sums[part], sums[part])
		}, func() { put() }, map[string]int{"dst": 64})
}

func (v *vec) swiGLU() {
	v.kernel("SwiGLU", "func(dst, x, y *float32, n int)", nothing,
		func(_ int, p func(string) Mem) {
			e, gate := v.reg(), v.reg()
			VMOVUPS(p("x"), gate)
			v.xor(constant("sign"), gate, e)
			v.exp(e)
			VADDPS(constant("one"), e, e)
			VDIVPS(e, gate, gate)
			VMULPS(p("y"), gate, gate)
			VMOVUPS(gate, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 64, "y": 64})
}

// clampedSwiGLU takes the steps of clampedSwiGLUGeneric in package cpu.
func (v *vec) clampedSwiGLU() {
	var limit, least reg.VecPhysical
	v.kernel("ClampedSwiGLU", "func(dst, x, y *float32, n int, limit float32)",
		func() {
			limit, least = v.fill("limit"), v.reg()
			v.xor(constant("sign"), limit, least)
		},
		func(_ int, p func(string) Mem) {
			e, gate, up := v.reg(), v.reg(), v.reg()
			VMOVUPS(p("x"), gate)
			VMOVUPS(p("y"), up)
			VMINPS(gate, limit, gate) // a NaN in gate stays
			VMINPS(up, limit, up)
			VMAXPS(up, least, up)
			VMULPS(constant("minusAlpha"), gate, e)
			v.exp(e)
			VADDPS(constant("one"), e, e)
			VDIVPS(e, gate, gate)
			VADDPS(constant("one"), up, up)
			VMULPS(up, gate, gate)
			VMOVUPS(gate, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 64, "y": 64})
}

func (v *vec) add() {
	v.kernel("Add", "func(dst, x *float32, n int)", nothing,
		func(_ int, p func(string) Mem) {
			x := v.reg()
			VMOVUPS(p("dst"), x)
			VADDPS(p("x"), x, x)
			VMOVUPS(x, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 64})
}

func (v *vec) scale() {
	var a reg.VecPhysical
	v.kernel("Scale", "func(dst *float32, n int, a float32)", func() { a = v.fill("a") },
		func(_ int, p func(string) Mem) {
			x := v.reg()
			VMULPS(p("dst"), a, x)
			VMOVUPS(x, p("dst"))
		}, nothing, map[string]int{"dst": 64})
}

// toBF16 rounds to nearest even by adding half of the last place that stays,
// less one if that place is even. A NaN becomes quiet instead.
func (v *vec) toBF16() {
	v.kernel("ToBF16", "func(dst *byte, x *float32, n int)", nothing,
		func(_ int, p func(string) Mem) {
			x, r, nan := v.reg(), v.reg(), v.reg()
			VMOVUPS(p("x"), x)
			VPSRLD(U8(16), x, nan)
			v.and(constant("bit"), nan, r)
			VPADDD(constant("half"), r, r)
			VPADDD(x, r, r)
			VPSRLD(U8(16), r, r)
			v.or(constant("quiet"), nan, nan)
			if v.is512() {
				VCMPPS(U8(3), x, x, reg.K1)
				VPBLENDMD(nan, r, reg.K1, r)
				VPMOVDW(r, p("dst"))
				return
			}
			VCMPPS(U8(3), x, x, x)
			VBLENDVPS(x, nan, r, r)
			VPACKUSDW(r, r, r)
			VPERMQ(U8(8), r, r)
			VMOVUPS(r.AsX(), p("dst"))
		}, nothing, map[string]int{"dst": 32, "x": 64})
}

func (v *vec) fromBF16() {
	v.kernel("FromBF16", "func(dst *float32, x *byte, n int)", nothing,
		func(_ int, p func(string) Mem) {
			x := v.reg()
			VPMOVZXWD(p("x"), x)
			VPSLLD(U8(16), x, x)
			VMOVUPS(x, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 32})
}
