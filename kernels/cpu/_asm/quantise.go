package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantGroup are the weights that share a scale.
const quantGroup = 32

// topsKernel writes a kernel that finds the weight of the largest magnitude of each group, the first of several, with
// its sign. Magnitudes are compared as whole numbers, so that what is no number is the largest.
func topsKernel(m machine) {
	begin(m.name+"Tops", "func(tops, w *float32, groups int)")
	tops, w, groups := parameter("tops"), parameter("w"), parameter("groups")
	n := quantGroup * 4 / m.width // vectors of a group
	a, mask := m.vector[:n], m.vector[n]
	most, other := m.vector[n+1], m.vector[n+2]
	fillWords(0x7fffffff, mask)
	Label("group")
	for i, v := range a {
		m.and(Mem{Base: w, Disp: m.width * i}, mask, v)
	}
	VPMAXUD(a[1], a[0], most)
	for _, v := range a[2:] {
		VPMAXUD(v, most, most)
	}
	m.largest(most, other)
	where := m.equals(a, most, other)
	at, top := GP64(), GP32()
	TZCNTL(where, at.As32())
	MOVL(Mem{Base: w, Index: at, Scale: 4}, top)
	MOVL(top, Mem{Base: tops})
	ADDQ(U8(4), tops)
	ADDQ(U32(4*quantGroup), w)
	DECQ(groups)
	JNZ(LabelRef("group"))
	end()
}

func parameter(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

func (m machine) largest(v, free reg.VecPhysical) {
	if m.is512() {
		VEXTRACTI64X4(U8(1), v, free.AsY())
		VPMAXUD(free.AsY(), v.AsY(), v.AsY())
	}
	VEXTRACTI128(U8(1), v.AsY(), free.AsX())
	VPMAXUD(free.AsX(), v.AsX(), v.AsX())
	for _, order := range []uint8{0x4e, 0xb1} {
		VPSHUFD(U8(order), v.AsX(), free.AsX())
		VPMAXUD(free.AsX(), v.AsX(), v.AsX())
	}
	VPBROADCASTD(v.AsX(), v)
}

// equals has a bit for each of a's words that equals v's.
func (m machine) equals(a []reg.VecPhysical, v, free reg.VecPhysical) reg.GPVirtual {
	all := GP32()
	XORL(all, all)
	for i := len(a) - 1; i >= 0; i-- {
		one := GP32()
		if m.is512() {
			k := K()
			VPCMPEQD(v, a[i], k)
			KMOVW(k, one)
		} else {
			VPCMPEQD(v, a[i], free)
			VMOVMSKPS(free, one)
		}
		SHLL(U8(m.width/4), all)
		ORL(one, all)
	}
	return all
}

// codesKernel writes a kernel that rounds weights over their group's step, a float64, to whole numbers within bounds,
// ties to even, as bytes.
func codesKernel(m machine) {
	begin(m.name+"Codes", "func(codes *byte, w *float32, steps *float64, groups int, least, most int32)")
	codes, w, steps, groups := parameter("codes"), parameter("w"), parameter("steps"), parameter("groups")
	v := m.vector
	step, bounds := v[8], v[9:11]
	for i, name := range []string{"least", "most"} {
		bound := Load(Param(name), GP32()).(reg.GPVirtual)
		VMOVD(bound, bounds[i].AsX())
		VPBROADCASTD(bounds[i].AsX(), half(bounds[i]))
	}
	Label("group")
	VBROADCASTSD(Mem{Base: steps}, step)
	n := m.width / 8 // weights of a vector
	for at := 0; at < quantGroup; at += n {
		q := v[at/n%8]
		VCVTPS2PD(Mem{Base: w, Disp: 4 * at}, q)
		VDIVPD(step, q, q)
		m.whole(q)
		VPMAXSD(half(bounds[0]), half(q), half(q))
		VPMINSD(half(bounds[1]), half(q), half(q))
		if m.is512() {
			VPMOVDB(half(q), Mem{Base: codes, Disp: at})
			continue
		}
		VPACKSSDW(half(q), half(q), half(q))
		VPACKSSWB(half(q), half(q), half(q))
		VMOVD(half(q), Mem{Base: codes, Disp: at})
	}
	ADDQ(U8(8), steps)
	ADDQ(U32(4*quantGroup), w)
	ADDQ(U8(quantGroup), codes)
	DECQ(groups)
	JNZ(LabelRef("group"))
	end()
}

// whole rounds float64s to 32 bits, in the lower half of the register.
func (m machine) whole(q reg.VecPhysical) {
	if m.is512() {
		VCVTPD2DQ(q, half(q))
		return
	}
	VCVTPD2DQY(q, half(q))
}

func fillWords(value uint32, v reg.VecPhysical) {
	word := GP32()
	MOVL(U32(value), word)
	everyWord(word, v)
}

func everyWord(word reg.GPVirtual, v reg.VecPhysical) {
	VMOVD(word, v.AsX())
	VPBROADCASTD(v.AsX(), v)
}

// joinKernel writes a kernel that gives each of the halves of bytes of two rows a byte, the second row's upper, and changes
// bits of it. A block is a vector of each row.
func joinKernel(m machine) {
	begin(m.name+"Join", "func(to, a, b *byte, blocks int, bits uint32)")
	to, a, b, blocks := parameter("to"), parameter("a"), parameter("b"), parameter("blocks")
	v, low, bits := m.vector, m.vector[6], m.vector[7]
	everyWord(Load(Param("bits"), GP32()).(reg.GPVirtual), bits)
	fillWords(0x0f0f0f0f, low)
	Label("block")
	VMOVDQU(Mem{Base: a}, v[0])
	VMOVDQU(Mem{Base: b}, v[1])
	VPAND(low, v[0], v[2])
	VPSLLW(U8(4), v[1], v[3])
	VPANDN(v[3], low, v[3])
	VPOR(v[3], v[2], v[2]) // the first halves
	VPSRLW(U8(4), v[0], v[0])
	VPAND(low, v[0], v[0])
	VPANDN(v[1], low, v[1])
	VPOR(v[1], v[0], v[0]) // the second ones
	VPXOR(bits, v[2], v[2])
	VPXOR(bits, v[0], v[0])
	VPUNPCKLBW(v[0], v[2], v[4])
	VPUNPCKHBW(v[0], v[2], v[5])
	VPERM2I128(U8(0x20), v[5], v[4], v[0])
	VPERM2I128(U8(0x31), v[5], v[4], v[1])
	VMOVDQU(v[0], Mem{Base: to})
	VMOVDQU(v[1], Mem{Base: to, Disp: m.width})
	ADDQ(U8(m.width), a)
	ADDQ(U8(m.width), b)
	ADDQ(U8(2*m.width), to)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	end()
}
