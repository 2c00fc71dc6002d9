package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// machine is an instruction set with its vector registers.
type machine struct {
	name   string
	width  int // bytes of a vector
	vector []reg.VecPhysical
	shapes []shape
	packed []shape // for packed weights, whose scales take registers too
}

// shape is a tile of rows by groups; a group is a pair of vectors that one
// load of bf16 weights yields: a panel (AVX-512) or half of one (AVX2).
type shape struct{ rows, groups int }

var (
	wide = machine{"avx512", 64, zs(), []shape{
		{1, 4}, {1, 2}, {1, 1}, {2, 4}, {2, 2}, {2, 1}, {3, 4}, {3, 2}, {3, 1},
		{4, 2}, {4, 1}, {5, 2}, {5, 1}, {6, 2}, {6, 1},
		{7, 1}, {8, 1}, {9, 1}, {10, 1}, {11, 1}, {12, 1},
	}, []shape{
		{1, 4}, {1, 2}, {1, 1}, {2, 4}, {2, 2}, {2, 1},
		{3, 2}, {3, 1}, {4, 2}, {4, 1}, {5, 2}, {5, 1},
		{6, 1}, {7, 1}, {8, 1}, {9, 1}, {10, 1}, {11, 1}, {12, 1},
	}}
	narrow = machine{"avx2", 32, ys(), []shape{
		{1, 4}, {1, 2}, {2, 2}, {3, 2}, {4, 1}, {5, 1}, {6, 1},
	}, []shape{{1, 2}, {2, 1}, {3, 1}, {4, 1}}}
)

// heads are tiles of rows for each of some heads (a head in place of a group),
// each with its own panel of weights.
var heads = []shape{{1, 4}, {1, 2}, {2, 4}, {2, 2}, {3, 4}, {3, 2}}

func zs() []reg.VecPhysical {
	return []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
		reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
		reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}
}

func ys() []reg.VecPhysical {
	return []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}
}

func (m machine) is512() bool { return m.width == 64 }

func (m machine) shapesOf(w weights) []shape {
	if w.packed() {
		return m.packed
	}
	return m.shapes
}

func taker(free *[]reg.VecPhysical) func() reg.VecPhysical {
	return func() reg.VecPhysical {
		v := (*free)[0]
		*free = (*free)[1:]
		return v
	}
}

// zero, and and xor have other names for the wide registers.
func (m machine) zero(v reg.Register) {
	if m.is512() {
		VPXORD(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

func (m machine) and(a operand.Op, b, dst reg.Register) {
	if m.is512() {
		VPANDD(a, b, dst)
		return
	}
	VPAND(a, b, dst)
}

func (m machine) xor(a operand.Op, b, dst reg.Register) {
	if m.is512() {
		VPXORD(a, b, dst)
		return
	}
	VPXOR(a, b, dst)
}

func (m machine) or(a operand.Op, b, dst reg.Register) {
	if m.is512() {
		VPORD(a, b, dst)
		return
	}
	VPOR(a, b, dst)
}
