package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of tilesArgs in package cpu.
const (
	tilesDst = 8 * iota
	tilesX
	tilesW
	tilesLdDst
	tilesNext
	tilesOther
	tilesK
	tilesAdd
	tilesTurns
	tilesDstStep
	tilesXStep
	tilesWStep
	tilesConfig
)

// A tile has 16 rows of 64 bytes, and a step of TDPBF16PS 16 pairs of inputs, of which stepBytes are a panel's weights.
const (
	tileLine  = 64
	tileBytes = 16 * tileLine
	stepPairs = tileLine / 4
	stepBytes = stepPairs * pairBytes
)

// tilesKernels writes the kernels for AMX. Their registers are fixed, as avo knows none of the instructions.
func tilesKernels() {
	pairTiles("amxPairsMany", pairsShape{tall: true, many: true})
	pairTiles("amxPairsTall", pairsShape{tall: true})
	pairTiles("amxPairsWide", pairsShape{wide: true})
	pairTiles("amxPairs", pairsShape{})
	placeSteps()
	for _, panels := range []int{4, 2, 1} {
		stepsKernel(panels)
	}
}

func beginTiles(name string) {
	begin(name, "func(a *byte)")
	Load(Param("a"), reg.RDI)
	ldtilecfg(reg.RDI, tilesConfig)
}

func tilesArg(at int) Mem { return Mem{Base: reg.RDI, Disp: at} }

// sumsAt is where a tile of sums lies in memory.
type sumsAt struct {
	tile int
	base reg.GPPhysical
	disp int
}

// pairsShape is how many tiles a turn has: two of rows if it is tall, and two panels if it is wide. Many turns of a tall
// one follow each other down the rows, so that weights come from the L1 cache, and rows from the L2.
type pairsShape struct{ tall, wide, many bool }

// Registers of the kernels for rows of bf16; the second tile of rows and the second panel are never both there.
var (
	tDst, tDst2, tX, tW, tOther = reg.RAX, reg.R12, reg.RSI, reg.RDX, reg.R13
	tLdX, tLdDst, tLine, tNext  = reg.R8, reg.R9, reg.R10, reg.RBX
	tTurns, tSteps              = reg.R11, reg.RCX
)

// pairTiles writes a kernel for rows of bf16, of which a step's are a tile in memory. Tiles 0 to 3 are sums, 4 and 5
// (tall) rows, the others weights.
func pairTiles(name string, shape pairsShape) {
	beginTiles(name)
	MOVQ(tilesArg(tilesDst), tDst)
	MOVQ(tilesArg(tilesX), tX)
	MOVQ(tilesArg(tilesW), tW)
	MOVQ(tilesArg(tilesLdDst), tLdDst)
	MOVQ(tilesArg(tilesTurns), tTurns)
	MOVQ(U32(tileLine), tLdX)
	MOVQ(U32(pairBytes), tLine)
	if shape.many {
		MOVQ(tilesArg(tilesNext), tNext)
	}
	Label("turn")
	sums := shape.begin()
	beginSums(sums, tLdDst)
	MOVQ(tilesArg(tilesK), tSteps)
	Label("step")
	shape.step()
	shape.ask()
	for _, r := range shape.rows() {
		ADDQ(U32(tileBytes), r)
	}
	for _, w := range shape.panels() {
		ADDQ(U32(stepBytes), w)
	}
	DECQ(tSteps)
	JNZ(LabelRef("step"))
	for _, s := range sums {
		tilestored(s.tile, s.base, tLdDst, s.disp)
	}
	ADDQ(tilesArg(tilesDstStep), tDst)
	ADDQ(tilesArg(tilesXStep), tX)
	ADDQ(tilesArg(tilesWStep), tW)
	DECQ(tTurns)
	JNZ(LabelRef("turn"))
	tilerelease()
	RET()
}

func (s pairsShape) rows() []reg.Register {
	if s.tall {
		return []reg.Register{tOther, tX}
	}
	return []reg.Register{tX}
}

func (s pairsShape) panels() []reg.Register {
	if s.wide {
		return []reg.Register{tOther, tW}
	}
	return []reg.Register{tW}
}

// begin sets the addresses of a turn, and says where its sums are.
func (s pairsShape) begin() []sumsAt {
	sums := []sumsAt{{0, tDst, 0}, {1, tDst, 64}}
	switch {
	case s.tall:
		MOVQ(tLdDst, tDst2)
		SHLQ(U8(4), tDst2)
		ADDQ(tDst, tDst2)
		MOVQ(tilesArg(tilesOther), tOther)
		ADDQ(tX, tOther)
		sums = append(sums, sumsAt{2, tDst2, 0}, sumsAt{3, tDst2, 64})
	case s.wide:
		MOVQ(tilesArg(tilesOther), tOther)
		ADDQ(tW, tOther)
		sums = append(sums, sumsAt{2, tDst, pairBytes}, sumsAt{3, tDst, pairBytes + 64})
	}
	return sums
}

// step multiplies 32 inputs.
func (s pairsShape) step() {
	tileload(4, tX, tLdX, 0)
	tileload(6, tW, tLine, 0)
	tdpbf16ps(0, 4, 6)
	tileload(7, tW, tLine, 64)
	tdpbf16ps(1, 4, 7)
	switch {
	case s.tall:
		tileload(5, tOther, tLdX, 0)
		tdpbf16ps(2, 5, 6)
		tdpbf16ps(3, 5, 7)
	case s.wide:
		tileload(5, tOther, tLine, 0)
		tdpbf16ps(2, 4, 5)
		tileload(6, tOther, tLine, 64)
		tdpbf16ps(3, 4, 6)
	}
}

// nextLines of weights are asked for in a step of many turns: those of the next inputs.
const nextLines = 8

// ask asks for what the step after the next reads.
func (s pairsShape) ask() {
	ahead := func(all []reg.Register, bytes int) {
		for _, r := range all {
			for at := 0; at < bytes; at += 64 {
				PREFETCHT0(Mem{Base: r, Disp: 2*bytes + at})
			}
		}
	}
	if !s.many {
		ahead(s.panels(), stepBytes)
		return
	}
	ahead(s.rows(), tileBytes)
	for at := range nextLines {
		PREFETCHT1(Mem{Base: tNext, Disp: 64 * at})
	}
	ADDQ(U32(64*nextLines), tNext)
}

// beginSums loads sums that go on, and clears others.
func beginSums(sums []sumsAt, ldDst reg.GPPhysical) {
	CMPQ(tilesArg(tilesAdd), U8(0))
	JEQ(LabelRef("fresh"))
	for _, s := range sums {
		tileload(s.tile, s.base, ldDst, s.disp)
	}
	JMP(LabelRef("begun"))
	Label("fresh")
	for _, s := range sums {
		tilezero(s.tile)
	}
	Label("begun")
}

// placeSteps writes a loop that gives each 64 bytes of a row their place in tiles.
func placeSteps() {
	begin("amxPlace", "func(dst *byte, src *byte, n int)")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	Label("step")
	VMOVUPS(Mem{Base: src}, reg.Z0)
	VMOVUPS(reg.Z0, Mem{Base: dst})
	ADDQ(U8(tileLine), src)
	ADDQ(U32(tileBytes), dst)
	DECQ(n)
	JNZ(LabelRef("step"))
	end()
}
