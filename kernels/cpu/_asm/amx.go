package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// AMX's instructions (Intel's manual, volume 2, chapters 2.3 and 5), of which neither avo nor Go's assembler knows any:
// VEX.128.pp.0F38.W0, where pp is one of these.
const (
	vexNone = 0
	vexF3   = 2
	vexF2   = 3
)

func raw(b ...byte) {
	for ; len(b) >= 4; b = b[4:] {
		Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)}})
	}
	for _, v := range b {
		Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(v)}})
	}
}

// vex begins an instruction: base and index are registers of its address, or 0, and source is its second source.
func vex(pp, opcode byte, base, index, source int) []byte {
	return []byte{0xc4, 0xe2 &^ byte(index>>3<<6|base>>3<<5), byte(^source&15)<<3 | pp, opcode}
}

// tdpbf16ps adds products of tiles a and b, of bf16, to tile dst.
func tdpbf16ps(dst, a, b int) {
	Comment(fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", b, a, dst))
	raw(append(vex(vexF3, 0x5c, 0, 0, b), byte(0xc0|dst<<3|a))...)
}

func tilezero(t int) {
	Comment(fmt.Sprintf("TILEZERO TMM%d", t))
	raw(append(vex(vexF2, 0x49, 0, 0, 0), byte(0xc0|t<<3))...)
}

func tilerelease() {
	Comment("TILERELEASE")
	raw(append(vex(vexNone, 0x49, 0, 0, 0), 0xc0)...)
}

// tileload loads lines of a tile that are index apart.
func tileload(t int, base, index reg.GPPhysical, disp int) {
	tileMemory("TILELOADD", vexF2, t, base, index, disp)
}

func tilestored(t int, base, index reg.GPPhysical, disp int) {
	tileMemory("TILESTORED", vexF3, t, base, index, disp)
}

func tileMemory(name string, pp byte, t int, base, index reg.GPPhysical, disp int) {
	Comment(fmt.Sprintf("%s %s, TMM%d", name, Mem{Base: base, Index: index, Scale: 1, Disp: disp}.Asm(), t))
	b, i := numberOf(base), numberOf(index)
	raw(append(vex(pp, 0x4b, b, i, 0), append([]byte{byte(0x80 | t<<3 | 4), byte(i&7<<3 | b&7)}, displacement(disp)...)...)...)
}

// ldtilecfg loads the configuration, of 64 bytes.
func ldtilecfg(base reg.GPPhysical, disp int) {
	Comment("LDTILECFG " + Mem{Base: base, Disp: disp}.Asm())
	b := numberOf(base)
	raw(append(vex(vexNone, 0x49, b, 0, 0), append([]byte{byte(0x80 | b&7)}, displacement(disp)...)...)...)
}

func displacement(d int) []byte { return []byte{byte(d), byte(d >> 8), byte(d >> 16), byte(d >> 24)} }

func numberOf(r reg.GPPhysical) int { return int(r.PhysicalIndex()) }
