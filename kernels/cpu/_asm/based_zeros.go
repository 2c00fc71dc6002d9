package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of based.go make weights of zero +0, where a code of zero times a negative scale, or a negative code times
// zero, is -0. That can change the sign of an output that is zero in the end, and nothing else: a product ±0 changes no
// other sum than ±0, and what follows on ±0 is the same. A chain begins at +0, +0 plus ±0 is +0, and numbers that cancel
// make +0. So a chain becomes -0 only where a number that is not zero is rounded to zero, and then the processor sets the
// underflow flag of MXCSR. Where an output is zero and that flag is set, the kernels say so in argZeros, and others compute
// the tile again. Outputs that only pad a panel, rows of zeros and weights of zeros set no flag.
//
// underflow is that flag: Intel's manual, volume 1, 10.2.3. It stays set until it is cleared.
const underflow = 1 << 4

// clearUnderflow clears the flag. Writing MXCSR is slow, so it does that only if the flag is set.
func (g *basedGen) clearUnderflow(args reg.GPVirtual) {
	at, state := Mem{Base: args, Disp: argZeros}, GP32()
	VSTMXCSR(at)
	MOVL(at, state)
	TESTL(U32(underflow), state)
	JZ(LabelRef("cleared"))
	ANDL(I32(^underflow), state)
	MOVL(state, at)
	VLDMXCSR(at)
	Label("cleared")
}

// tellZeros writes argZeros: not 0 if an output is zero and something has underflowed.
func (g *basedGen) tellZeros(args reg.GPVirtual) {
	KXORW(zeros, zeros, zeros)
	for _, row := range g.acc {
		for _, pair := range row {
			for _, v := range pair {
				VPTESTNMD(constant("abs"), v, zero)
				KORW(zero, zeros, zeros)
			}
		}
	}
	at, state := Mem{Base: args, Disp: argZeros}, GP32()
	XORL(state, state)
	KORTESTW(zeros, zeros)
	JZ(LabelRef("tell"))
	VSTMXCSR(at)
	MOVL(at, state)
	ANDL(U32(underflow), state)
	Label("tell")
	MOVQ(state.As64(), at)
}
