package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// panelWidth is the number of outputs of a panel.
const panelWidth = 32

// loadScales fills the scales of a group. W4A8's kernels have 16 times the codes, so that scales are over 16;
// those in bf16 are stored so.
func (g *dotsGen) loadScales() {
	CMPQ(g.kind, U8(stepsHalf))
	JCS(LabelRef("bf16"))
	JEQ(LabelRef("half"))
	CMPQ(g.kind, U8(scalesFloat))
	JEQ(LabelRef("floats"))
	g.subScales(0, 0)
	JMP(LabelRef("fit"))
	Label("floats")
	g.floats(0)
	JMP(LabelRef("fit"))
	Label("half")
	for half, v := range g.scale {
		VCVTPH2PS(Mem{Base: g.scalep, Disp: panelWidth * half}, v)
	}
	ADDQ(U8(2*panelWidth), g.scalep)
	Label("fit")
	if g.w == w4a8 {
		for _, v := range g.scale {
			VMULPS(constant("sixteenth"), v, v)
		}
	}
	JMP(LabelRef("scaled"))
	Label("bf16")
	for half, v := range g.scale {
		VPMOVZXWD(Mem{Base: g.scalep, Disp: panelWidth * half}, v)
		VPSLLD(U8(16), v, v)
	}
	ADDQ(U8(2*panelWidth), g.scalep)
	Label("scaled")
}

// loadOffsets fills the offsets of a group, and moves on to the next.
func (g *dotsGen) loadOffsets() {
	CMPQ(g.kind, U8(scalesFloat))
	JEQ(LabelRef("offsets"))
	g.subScales(panelWidth, 2*panelWidth)
	ADDQ(U8(2*panelWidth), g.scalep)
	g.nextSpan(4 * panelWidth)
	JMP(LabelRef("loaded"))
	Label("offsets")
	g.floats(4 * panelWidth)
	ADDQ(U32(8*panelWidth), g.scalep)
	Label("loaded")
}

func (g *dotsGen) floats(disp int) {
	for half, v := range g.scale {
		VMOVUPS(Mem{Base: g.scalep, Disp: disp + 2*panelWidth*half}, v)
	}
}

// subScales fills the scales with bytes times what a span shares.
func (g *dotsGen) subScales(sub, top int) {
	for half, v := range g.scale {
		VPMOVSXBD(Mem{Base: g.scalep, Disp: sub + panelWidth/2*half}, v)
		VCVTDQ2PS(v, v)
		VCVTPH2PS(Mem{Base: g.tops, Disp: top + panelWidth*half}, g.hi)
		VMULPS(g.hi, v, v)
	}
}

// nextSpan moves on to the next span's steps and mins, after its last group.
func (g *dotsGen) nextSpan(size int) {
	DECQ(g.span)
	JNZ(LabelRef("within"))
	MOVQ(U32(spanGroups), g.span)
	ADDQ(U32(uint32(size)), g.tops)
	Label("within")
}

func writeDots(b *strings.Builder, machines ...machine) {
	for _, m := range machines {
		for _, w := range allDots {
			writeSwitch(b, m.name+string(w), dots[m.name], func(s shape) string { return tileName(m, w, s.rows, s.groups) })
		}
	}
}
