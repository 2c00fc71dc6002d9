package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() {
	for name, value := range map[string]float32{
		"minusHalf": -0.5, "tail": 0.36,
		"g8": -0.030341848, "g7": 0.13993604, "g6": -0.22433213, "g5": 0.10804374, "g4": -0.00074800761,
		"g3": 0.096151581, "g2": 0.12398928, "g1": 0.14368376, "g0": 0.14361760,
		"tanh1": -1.5957691, "tanh3": -0.071354815,
	} {
		constants[name] = bits(value)
	}
}

// gelu takes the steps of gelu32 in package cpu.
func (v *vec) gelu() {
	v.kernel("GELU", "func(dst, x *float32, n int)", nothing,
		func(_ int, p func(string) Mem) {
			x, t, s, q := v.reg(), v.reg(), v.reg(), v.reg()
			VMOVUPS(p("x"), x)
			v.and(constant("abs"), x, t)
			VMOVUPS(constant("tail"), q)
			VFMADD213PS(constant("one"), t, q)
			VMOVUPS(constant("one"), s)
			VDIVPS(q, s, s)
			VMOVUPS(constant("g8"), q)
			for _, c := range []string{"g7", "g6", "g5", "g4", "g3", "g2", "g1", "g0"} {
				VFMADD213PS(constant(c), s, q)
			}
			VMULPS(s, q, q)
			VMULPS(t, t, t)
			VMULPS(constant("minusHalf"), t, t)
			v.exp(t)
			VMULPS(t, q, q)
			VMOVUPS(constant("one"), s)
			VSUBPS(q, s, s)
			v.whereNegative(x, q, s)
			VMULPS(x, s, s)
			VMOVUPS(s, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 64})
}

// whereNegative is dst = from in the lanes in which x has its sign bit set.
func (v *vec) whereNegative(x, from, dst reg.VecPhysical) {
	if v.is512() {
		VPMOVD2M(x, reg.K1)
		VPBLENDMD(from, dst, reg.K1, dst)
		return
	}
	VBLENDVPS(x, from, dst, dst)
}

// geluTanh takes the steps of geluTanh32 in package cpu.
func (v *vec) geluTanh() {
	v.kernel("GELUTanh", "func(dst, x *float32, n int)", nothing,
		func(_ int, p func(string) Mem) {
			x, e, square := v.reg(), v.reg(), v.reg()
			VMOVUPS(p("x"), x)
			VMULPS(x, x, square)
			VMOVUPS(constant("tanh3"), e)
			VFMADD213PS(constant("tanh1"), square, e)
			VMULPS(x, e, e)
			v.exp(e)
			VADDPS(constant("one"), e, e)
			VDIVPS(e, x, x)
			VMOVUPS(x, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 64})
}
