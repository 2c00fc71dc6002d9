package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stepsKernel writes what TDPBF16PS computes of one row and some panels, by FMA: for a single row tiles cost more than they save.
func stepsKernel(panels int) {
	g := &pairsGen{tileGen: tileGen{machine: wide, w: w16a16, rows: 1, groups: panels, perHead: 1}}
	begin(fmt.Sprintf("avx512Steps%d", panels), "func(a *byte)")
	args := parameter("a")
	free := g.vector
	take := taker(&free)
	var acc, even, odd []reg.VecPhysical // by panel and half
	for range 2 * panels {
		acc, even, odd = append(acc, take()), append(even, take()), append(odd, take())
	}
	wEven, wOdd := take(), take()
	g.xEven, g.xOd, g.mask = take(), take(), take()
	x, w, k := field(args, argX), field(args, argW), field(args, argK)
	var at []reg.GPVirtual // panels
	for i := range panels {
		at = append(at, w)
		if i > 0 {
			at[i] = GP64()
			MOVQ(at[i-1], at[i])
			ADDQ(Mem{Base: args, Disp: argStride}, at[i])
		}
	}
	for _, v := range acc {
		g.zero(v)
	}
	g.widening(func() { g.addSteps(at, x, k, [3][]reg.VecPhysical{acc, even, odd}, [2]reg.VecPhysical{wEven, wOdd}) })
	dst := field(args, argDst)
	for i, v := range acc {
		VMOVUPS(v, Mem{Base: dst, Disp: 64 * i})
	}
	end()
}

// addSteps adds steps of k pairs to sums, through those of even and of odd inputs.
func (g *pairsGen) addSteps(at []reg.GPVirtual, x, k reg.GPVirtual, sums [3][]reg.VecPhysical, w [2]reg.VecPhysical) {
	acc, even, odd, left := sums[0], sums[1], sums[2], GP64()
	Label("step")
	for i := range acc {
		g.zero(even[i])
		g.zero(odd[i])
	}
	MOVQ(U32(stepPairs), left)
	CMPQ(k, left)
	CMOVQLT(k, left)
	Label("pair")
	VPBROADCASTD(Mem{Base: x}, g.xOd)
	VPSLLD(U8(16), g.xOd, g.xEven)
	g.and(g.mask, g.xOd, g.xOd)
	for i := range acc {
		m := Mem{Base: at[i/2], Disp: 64 * (i % 2)}
		PREFETCHT0(Mem{Base: at[i/2], Disp: 64*(i%2) + prefetchAhead})
		VMOVUPS(m, w[1])
		VPSLLD(U8(16), w[1], w[0])
		g.and(g.mask, w[1], w[1])
		VFMADD231PS(g.xEven, w[0], even[i])
		VFMADD231PS(g.xOd, w[1], odd[i])
	}
	for _, p := range at {
		SUBQ(I8(-pairBytes), p)
	}
	ADDQ(U8(4), x)
	DECQ(left)
	JNZ(LabelRef("pair"))
	for i := range acc {
		VADDPS(odd[i], even[i], even[i])
		VADDPS(even[i], acc[i], acc[i])
	}
	ADDQ(U32(tileBytes-tileLine), x)
	SUBQ(U8(stepPairs), k)
	JGT(LabelRef("step"))
}
