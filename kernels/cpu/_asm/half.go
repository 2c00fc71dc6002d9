package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// halfRows are the tiles of half a panel, the largest first.
var halfRows = []int{16, 8, 4, 2, 1}

func halfName(m machine, rows int) string { return fmt.Sprintf("%sHalfR%d", m.name, rows) }

// halfKernel writes a tile of rows by one vector of f32 weights: a chain each
// row, which begins at zero.
func halfKernel(m machine, rows int) {
	begin(halfName(m, rows), "func(a *byte)")
	g := &tileGen{machine: m, w: f32, rows: rows, groups: 1, perHead: rows, jumps: true}
	acc, w := m.vector[:rows], m.vector[rows]
	args := parameter("a")
	g.loadArgs(args)
	for _, v := range acc {
		g.zero(v)
	}
	Label("turn")
	PREFETCHT0(Mem{Base: g.ahead})
	VMOVUPS(Mem{Base: g.wp}, w)
	for r, v := range acc {
		VFMADD231PS_BCST(g.xAt(r, 0), w, v)
	}
	g.advance(1)
	ADDQ(g.step, g.wp)
	ADDQ(g.step, g.ahead)
	DECQ(g.k)
	JNZ(LabelRef("turn"))
	dst, ld := field(args, argDst), field(args, argLdDst)
	for r, v := range acc {
		if r > 0 {
			ADDQ(ld, dst)
		}
		VMOVUPS(v, Mem{Base: dst})
	}
	end()
}

// writeHalves writes the Go function that calls the tallest kernel for so many rows.
func writeHalves(b *strings.Builder, m machine) {
	fmt.Fprintf(b, "\n// %sHalf computes some of so many rows and returns how many.\n", m.name)
	fmt.Fprintf(b, "func %sHalf(rows int, args *tileArgs) int {\n\ta := (*byte)(unsafe.Pointer(args))\n\tswitch {\n", m.name)
	for _, rows := range halfRows[:len(halfRows)-1] {
		fmt.Fprintf(b, "\tcase rows >= %d:\n\t\t%s(a)\n\t\treturn %d\n", rows, halfName(m, rows), rows)
	}
	fmt.Fprintf(b, "\t}\n\t%s(a)\n\treturn 1\n}\n", halfName(m, 1))
}
