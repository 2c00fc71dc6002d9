package main

import (
	"fmt"
	"os"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

type weights string

const (
	bf16 weights = "BF16"
	f32  weights = "F32"
	// Packed weights, decoded in registers; see packed.go.
	mxfp4 weights = "MXFP4"
	fp8   weights = "FP8"
	q8    weights = "Q8"
	q4    weights = "Q4"
)

// all are the weights that there are kernels for.
var all = []weights{bf16, f32, mxfp4, fp8, q8, q4}

// Offsets of the fields of tileArgs in package cpu.
const (
	argDst = 8 * iota
	argX
	argW
	argLdDst
	argLdX
	argStep
	argStride
	argK
	argAdd
	argAhead
	argScales
	argScaleStride
	argTops
	argTopStride
	argZeros
)

// unroll is the number of steps of k in a turn of the main loop.
const unroll = 2

// prefetchAhead is how far before its use a line of weights is asked for.
const prefetchAhead = 4096

type tileGen struct {
	machine
	w            weights
	rows, groups int
	jumps        bool                   // weights lie in pages: what is asked for is at ahead
	perHead      int                    // rows that share weights; all of them in a tile of one head
	acc          [][][2]reg.VecPhysical // row, group, half
	spare        []reg.VecPhysical

	wp, step, k     reg.GPVirtual
	ahead           reg.GPVirtual // what f32 kernels ask for while they read at wp
	stride, stride3 reg.GPVirtual
	ldX, ldX3       reg.GPVirtual
	x               []reg.GPVirtual // every fourth row
	mask            reg.VecPhysical
	lo, hi          reg.VecPhysical
	broadcast       []reg.VecPhysical // one a row, or one for all

	packedRegs // for packed weights
}

func tileName(m machine, w weights, rows, groups int) string {
	return fmt.Sprintf("%s%sR%dG%d", m.name, w, rows, groups)
}

// tileKernel writes one tile: rows × groups pairs of accumulators stay in
// registers for the whole chain over k.
func tileKernel(m machine, w weights, rows, groups int) {
	g := &tileGen{machine: m, w: w, rows: rows, groups: groups, perHead: rows, jumps: w == f32 || w == kept}
	g.kernel(tileName(m, w, rows, groups))
}

func headsName(m machine, w weights, rows, heads int) string {
	kind := "Heads"
	if w != f32 {
		kind += string(w)
	}
	return fmt.Sprintf("%s%sR%dH%d", m.name, kind, rows, heads)
}

// headsKernel writes a tile of one panel for each head: more chains in flight
// than a head's few rows have.
func headsKernel(m machine, w weights, rows, heads int) {
	g := &tileGen{machine: m, w: w, rows: rows * heads, groups: 1, perHead: rows, jumps: true}
	g.kernel(headsName(m, w, rows, heads))
}

func (g *tileGen) kernel(name string) {
	begin(name, "func(a *byte)")
	g.assign()
	args := parameter("a")
	g.loadArgs(args)
	g.begin(args)
	switch {
	case g.w.packed():
		g.packedLoop(args)
	case g.w == kept:
		g.keptLoop()
	default:
		g.loop()
	}
	g.store(args)
	end()
}

// assignRows takes registers for the sums of all rows, and for weights.
func (g *tileGen) assignRows(take func() reg.VecPhysical) {
	for range g.rows {
		var row [][2]reg.VecPhysical
		for range g.groups {
			row = append(row, [2]reg.VecPhysical{take(), take()})
		}
		g.acc = append(g.acc, row)
	}
	g.lo, g.hi = take(), take()
}

func (g *tileGen) assign() {
	free := g.vector
	take := taker(&free)
	g.assignRows(take)
	if g.w == bf16 {
		g.mask = take()
	}
	if g.w.packed() && g.w != w16a16 {
		g.assignPacked(take)
	}
	g.broadcast = free[:1]
	if g.groups > 1 && len(free) >= g.rows { // each row has a register of its own
		g.broadcast = free[:g.rows]
	}
}

func field(args reg.GPVirtual, at int) reg.GPVirtual {
	v := GP64()
	MOVQ(Mem{Base: args, Disp: at}, v)
	return v
}

func (g *tileGen) loadArgs(args reg.GPVirtual) {
	g.wp, g.k = field(args, argW), field(args, argK)
	if !g.w.packed() {
		g.step = field(args, argStep)
	}
	if g.jumps {
		g.ahead = field(args, argAhead)
		ADDQ(g.wp, g.ahead)
	}
	if g.panels() > 1 {
		g.stride = field(args, argStride)
	}
	if g.panels() > 3 {
		g.stride3 = GP64()
		LEAQ(Mem{Base: g.stride, Index: g.stride, Scale: 2}, g.stride3)
	}
	if g.rows > 1 {
		g.ldX = field(args, argLdX)
	}
	if g.rows > 3 {
		g.ldX3 = GP64()
		LEAQ(Mem{Base: g.ldX, Index: g.ldX, Scale: 2}, g.ldX3)
	}
	g.x = []reg.GPVirtual{field(args, argX)}
	for r := 4; r < g.rows; r += 4 {
		next := GP64()
		LEAQ(Mem{Base: g.x[len(g.x)-1], Index: g.ldX, Scale: 4}, next)
		g.x = append(g.x, next)
	}
	if g.w == bf16 {
		fillWords(0xffff0000, g.mask)
	}
}

// panels is the number of panels that the strides lead to.
func (g *tileGen) panels() int {
	return max((g.groups*g.width+63)/64, g.rows/g.perHead)
}

// place is a group's panel and its offset in bytes within a row of 32 floats.
func (g *tileGen) place(group int) (panel, offset int) {
	at := group * g.width
	return at / 64, at % 64
}

func (g *tileGen) eachAcc(dst reg.GPVirtual, ld reg.GPVirtual, f func(m Mem, v reg.VecPhysical)) {
	for r, row := range g.acc {
		if r > 0 {
			ADDQ(ld, dst)
		}
		for i, pair := range row {
			panel, offset := g.place(i)
			f(Mem{Base: dst, Disp: panel*128 + offset}, pair[0])
			f(Mem{Base: dst, Disp: panel*128 + offset + 64}, pair[1])
		}
	}
}

// begin sets the accumulators to zero, or to what dst holds.
func (g *tileGen) begin(args reg.GPVirtual) {
	flag := field(args, argAdd)
	TESTQ(flag, flag)
	JZ(LabelRef("fresh"))
	dst, ld := field(args, argDst), field(args, argLdDst)
	g.eachAcc(dst, ld, func(m Mem, v reg.VecPhysical) { VMOVUPS(m, v) })
	JMP(LabelRef("start"))
	Label("fresh")
	g.clear()
	Label("start")
}

func (g *tileGen) clear() {
	for _, row := range g.acc {
		for _, pair := range row {
			g.zero(pair[0])
			g.zero(pair[1])
		}
	}
}

func (g *tileGen) store(args reg.GPVirtual) {
	dst, ld := field(args, argDst), field(args, argLdDst)
	g.eachAcc(dst, ld, func(m Mem, v reg.VecPhysical) { VMOVUPS(v, m) })
}

func (g *tileGen) loop() {
	SUBQ(U8(unroll), g.k)
	JL(LabelRef("rest"))
	Label("turn")
	for u := range unroll {
		g.stepK(u)
	}
	g.advance(unroll)
	SUBQ(U8(unroll), g.k)
	JGE(LabelRef("turn"))
	Label("rest")
	ADDQ(U8(unroll), g.k)
	JZ(LabelRef("done"))
	Label("one")
	g.stepK(0)
	g.advance(1)
	DECQ(g.k)
	JNZ(LabelRef("one"))
	Label("done")
}

func (g *tileGen) advance(n int) {
	for _, x := range g.x {
		ADDQ(U8(4*n), x)
	}
}

// stepK adds one k to all chains.
func (g *tileGen) stepK(u int) {
	input := g.inputs(u, VBROADCASTSS)
	for i := range g.groups {
		for r := range g.rows {
			if r%g.perHead == 0 {
				g.loadWeights(i + r/g.perHead)
			}
			b := input(r)
			VFMADD231PS(b, g.lo, g.acc[r][i][0])
			VFMADD231PS(b, g.hi, g.acc[r][i][1])
		}
	}
	ADDQ(g.step, g.wp)
	if g.jumps {
		ADDQ(g.step, g.ahead)
	}
}

// inputs has the register of a row's input u filled, for all rows now if there are enough, else as each is asked for.
func (g *tileGen) inputs(u int, fill func(ops ...Op)) func(r int) reg.VecPhysical {
	if len(g.broadcast) == 1 {
		return func(r int) reg.VecPhysical {
			fill(g.xAt(r, u), g.broadcast[0])
			return g.broadcast[0]
		}
	}
	for r := range g.rows {
		fill(g.xAt(r, u), g.broadcast[r])
	}
	return func(r int) reg.VecPhysical { return g.broadcast[r] }
}

func (g *tileGen) xAt(r, u int) Mem {
	m := Mem{Base: g.x[r/4], Disp: 4 * u}
	switch r % 4 {
	case 1:
		m.Index, m.Scale = g.ldX, 1
	case 2:
		m.Index, m.Scale = g.ldX, 2
	case 3:
		m.Index, m.Scale = g.ldX3, 1
		if g.rows <= 3 {
			panic("row 3 of a tile of 3")
		}
	}
	return m
}

func (g *tileGen) wAt(base reg.Register, panel, disp int) Mem {
	m := Mem{Base: base, Disp: disp}
	switch panel {
	case 1:
		m.Index, m.Scale = g.stride, 1
	case 2:
		m.Index, m.Scale = g.stride, 2
	case 3:
		m.Index, m.Scale = g.stride3, 1
	}
	return m
}

// loadWeights fills lo and hi: outputs 0..15 and 16..31 of a panel, or the
// group's half of each.
func (g *tileGen) loadWeights(i int) {
	panel, offset := g.place(i)
	if g.w == f32 {
		if offset == 0 {
			PREFETCHT0(g.wAt(g.ahead, panel, 0))
			PREFETCHT0(g.wAt(g.ahead, panel, 64))
		}
		VMOVUPS(g.wAt(g.wp, panel, offset), g.lo)
		VMOVUPS(g.wAt(g.wp, panel, offset+64), g.hi)
		return
	}
	if g.w == kept {
		g.loadKept(panel, offset)
		return
	}
	switch {
	case offset != 0:
	case g.jumps:
		PREFETCHT0(g.wAt(g.ahead, panel, 0))
	default:
		PREFETCHT0(g.wAt(g.wp, panel, prefetchAhead))
	}
	// AVX2 groups of a bf16 panel lie 32 bytes apart, as its floats do.
	VMOVUPS(g.wAt(g.wp, panel, offset), g.hi)
	VPSLLD(U8(16), g.hi, g.lo)
	g.and(g.mask, g.hi, g.hi)
}

// writeDispatch writes the Go switch from shapes to kernels: direct calls, so
// that the arguments stay on the stack.
func writeDispatch(path string) {
	b := &strings.Builder{}
	b.WriteString("// Code generated by _asm. DO NOT EDIT.\n\npackage cpu\n\nimport \"unsafe\"\n")
	for _, m := range []machine{wide, narrow} {
		for _, w := range all {
			writeSwitch(b, m.name+string(w), m.shapesOf(w), func(s shape) string { return tileName(m, w, s.rows, s.groups) })
		}
	}
	writeSwitch(b, wide.name+"Heads", heads, func(s shape) string { return headsName(wide, f32, s.rows, s.groups) })
	writeSwitch(b, wide.name+"HeadsBF16", heads, func(s shape) string { return headsName(wide, bf16, s.rows, s.groups) })
	writeHalves(b, wide)
	writeDots(b, wide, narrow)
	writePairs(b)
	write(path, b)
}

func write(path string, b *strings.Builder) {
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		panic(err)
	}
}

func writeSwitch(b *strings.Builder, name string, shapes []shape, kernel func(shape) string) {
	fmt.Fprintf(b, "\nfunc %s(rows, groups int, args *tileArgs) {\n\ta := (*byte)(unsafe.Pointer(args))\n\tswitch rows<<4 | groups {\n", name)
	for _, s := range shapes {
		fmt.Fprintf(b, "\tcase %d<<4 | %d:\n\t\t%s(a)\n", s.rows, s.groups, kernel(s))
	}
	b.WriteString("\tdefault:\n\t\tpanic(\"cpu: no kernel of this shape\")\n\t}\n}\n")
}
