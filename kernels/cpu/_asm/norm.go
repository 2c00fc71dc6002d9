package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (v *vec) sum() {
	var sums []reg.VecPhysical
	var put func()
	v.kernel("Sum", "func(acc, x *float32, n int)", func() { sums, put = v.lanesOf() },
		func(part int, p func(string) Mem) {
			VADDPS(p("x"), sums[part], sums[part])
		}, func() { put() }, map[string]int{"x": 64})
}

func (v *vec) sumCentred() {
	var sums []reg.VecPhysical
	var put func()
	var mean reg.VecPhysical
	v.kernel("SumCentred", "func(acc, x *float32, n int, mean float32)",
		func() { sums, put = v.lanesOf(); mean = v.fill("mean") },
		func(part int, p func(string) Mem) {
			x := v.reg()
			VMOVUPS(p("x"), x)
			VSUBPS(mean, x, x)
			VFMADD231PS(x, x, sums[part])
		}, func() { put() }, map[string]int{"x": 64})
}

func (v *vec) layerNorm() {
	var mean, inv reg.VecPhysical
	v.kernel("LayerNorm", "func(dst, x, y, w *float32, n int, mean, inv float32)",
		func() { mean, inv = v.fill("mean"), v.fill("inv") },
		func(_ int, p func(string) Mem) {
			x, w := v.reg(), v.reg()
			VMOVUPS(p("x"), x)
			VSUBPS(mean, x, x)
			VMULPS(inv, x, x)
			VMOVUPS(p("w"), w)
			VFMADD213PS(p("y"), w, x)
			VMOVUPS(x, p("dst"))
		}, nothing, map[string]int{"dst": 64, "x": 64, "y": 64, "w": 64})
}
