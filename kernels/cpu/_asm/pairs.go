package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// w16a16 are weights of bf16 for rows of bf16: two inputs of an output in a word.
const w16a16 weights = "W16A16"

// dotting has an instruction that adds two products of bf16.
var dotting = machine{name: "avx512bf16", width: wide.width, vector: wide.vector, shapes: wide.shapes}

// pairs are the machines' tiles for such rows. Those without the instruction take a panel (AVX-512)
// or half of one (AVX2).
var pairs = []struct {
	machine
	shapes []shape
}{
	{dotting, dotting.shapes},
	{wide, []shape{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}, {9, 1}, {10, 1}, {11, 1}, {12, 1}}},
	{narrow, []shape{{1, 1}, {2, 1}, {3, 1}, {4, 1}}},
}

// pairBytes are those of a pair of inputs in a panel.
const pairBytes = 128

// pairsGen writes a tile for rows of bf16.
type pairsGen struct {
	tileGen
	dots       bool               // the machine has the instruction
	even, odd  [2]reg.VecPhysical // without it: a group's weights of an input, by half
	xEven, xOd reg.VecPhysical
}

func pairsKernel(m machine, rows, groups int) {
	g := &pairsGen{tileGen: tileGen{machine: m, w: w16a16, rows: rows, groups: groups, perHead: rows}, dots: m.name == dotting.name}
	begin(tileName(m, w16a16, rows, groups), "func(a *byte)")
	g.assign()
	args := parameter("a")
	g.loadArgs(args)
	g.clear()
	if g.dots {
		g.loop()
	} else {
		g.widening(g.loop)
	}
	g.store(args)
	end()
}

func (g *pairsGen) assign() {
	if g.dots {
		g.tileGen.assign()
		return
	}
	free := g.vector
	take := taker(&free)
	for range g.rows {
		g.acc = append(g.acc, [][2]reg.VecPhysical{{take(), take()}})
	}
	g.even, g.odd = [2]reg.VecPhysical{take(), take()}, [2]reg.VecPhysical{take(), take()}
	g.xEven, g.xOd, g.mask = take(), take(), take()
}

// widening has tiny numbers count as zero around f, as VDPBF16PS does.
func (g *pairsGen) widening(f func()) {
	fillWords(0xffff0000, g.mask)
	saved := AllocLocal(8)
	VSTMXCSR(saved)
	control := GP32()
	MOVL(saved, control)
	ORL(U32(0x8040), control)
	MOVL(control, saved.Offset(4))
	VLDMXCSR(saved.Offset(4))
	f()
	VLDMXCSR(saved)
}

func (g *pairsGen) loop() {
	SUBQ(U8(unroll), g.k)
	JL(LabelRef("rest"))
	Label("turn")
	for u := range unroll {
		g.step2(u)
	}
	ADDQ(U32(unroll*pairBytes), g.wp)
	g.advance(unroll)
	SUBQ(U8(unroll), g.k)
	JGE(LabelRef("turn"))
	Label("rest")
	ADDQ(U8(unroll), g.k)
	JZ(LabelRef("done"))
	g.step2(0)
	Label("done")
}

// step2 adds a pair of inputs to all chains, the second of them first.
func (g *pairsGen) step2(u int) {
	var input func(r int) reg.VecPhysical
	if g.dots {
		input = g.inputs(u, VPBROADCASTD)
	}
	for i := range g.groups {
		g.loadPairs(i, u)
		for r := range g.rows {
			if !g.dots {
				g.addPair(r, u)
				continue
			}
			b := input(r)
			vdpbf16ps(b, g.lo, g.acc[r][i][0])
			vdpbf16ps(b, g.hi, g.acc[r][i][1])
		}
	}
}

func (g *pairsGen) loadPairs(i, u int) {
	panel, offset := g.place(i)
	if offset == 0 {
		PREFETCHT0(g.wAt(g.wp, panel, pairBytes*u+prefetchAhead))
		PREFETCHT0(g.wAt(g.wp, panel, pairBytes*u+64+prefetchAhead))
	}
	at := []Mem{g.wAt(g.wp, panel, pairBytes*u+offset), g.wAt(g.wp, panel, pairBytes*u+offset+64)}
	if g.dots {
		VMOVUPS(at[0], g.lo)
		VMOVUPS(at[1], g.hi)
		return
	}
	for half, m := range at {
		VMOVUPS(m, g.odd[half])
		VPSLLD(U8(16), g.odd[half], g.even[half])
		g.and(g.mask, g.odd[half], g.odd[half])
	}
}

// addPair is step2 of a row without the instruction.
func (g *pairsGen) addPair(r, u int) {
	VPBROADCASTD(g.xAt(r, u), g.xOd)
	VPSLLD(U8(16), g.xOd, g.xEven)
	g.and(g.mask, g.xOd, g.xOd)
	for half, acc := range g.acc[r][0] {
		VFMADD231PS(g.xOd, g.odd[half], acc)
	}
	for half, acc := range g.acc[r][0] {
		VFMADD231PS(g.xEven, g.even[half], acc)
	}
}

// vdpbf16ps adds the products of the pairs in a and b to acc. Neither avo nor Go's assembler has it:
// EVEX.512.F3.0F38.W0 52 /r (Intel's manual, volume 2, chapters 2.7 and 5).
func vdpbf16ps(a, b, acc reg.VecPhysical) {
	number := func(v reg.VecPhysical) uint32 { return uint32(v.(reg.Physical).PhysicalIndex()) }
	not := func(v, bit uint32) uint32 { return v>>bit&1 ^ 1 }
	d, s, t := number(acc), number(a), number(b)
	p0 := not(d, 3)<<7 | not(t, 4)<<6 | not(t, 3)<<5 | not(d, 4)<<4 | 2
	p1 := (^s&15)<<3 | 1<<2 | 2
	p2 := 2<<5 | not(s, 4)<<3
	modRM := 3<<6 | d&7<<3 | t&7
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(p2<<24 | p1<<16 | p0<<8 | 0x62)}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(modRM<<8 | 0x52)}})
}

func writePairs(b *strings.Builder) {
	for _, m := range pairs {
		writeSwitch(b, m.name+string(w16a16), m.shapes, func(s shape) string { return tileName(m.machine, w16a16, s.rows, s.groups) })
	}
}
