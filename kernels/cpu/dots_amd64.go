package cpu

import (
	"sync"
	"unsafe"
)

// How scales lie for the kernels of rounded rows.
const (
	stepsBF16   = iota
	stepsHalf   // in float16
	scalesFloat // expanded: scales, then offsets
	subsMins    // subs, then submins, as bytes; steps, then mins, in float16 for SuperInputs
)

// dotScales returns how they lie.
func (m *Matrix) dotScales() int {
	switch {
	case m.coded == nil:
		return stepsBF16
	case m.coded.Kind == Steps:
		return stepsHalf
	case m.coded.twofold():
		return subsMins
	}
	return scalesFloat
}

// tileDots computes a tile of rounded rows from panel p0 of m on; t.ldX counts bytes.
func tileDots(dst []float32, x []byte, m *Matrix, p0 int, t tile) {
	if active == generic || t.k == 0 {
		tileDotsGeneric(dst, x, m, p0, t)
		return
	}
	size := len(m.codes) / m.Panels()
	a := tileArgs{
		dst: pointerTo(dst), ldDst: 4 * t.ldDst, x: pointerTo(x), ldX: t.ldX, k: t.k / QGroup,
		w: pointerTo(m.codes[p0*size:]), panelStride: size, step: m.dotScales(),
	}
	switch a.step {
	case scalesFloat:
		m.expandDots(a, p0, t)
		return
	case stepsBF16:
		a.setScales(m.steps, nil, m.Panels(), p0)
	case stepsHalf:
		a.setScales(m.coded.tops, nil, m.Panels(), p0)
	default:
		a.setScales(m.coded.tops, m.coded.subs, m.Panels(), p0)
	}
	a.chunks(t.rows, t.panels, m.dotFormat())
}

// setScales points at the scales from panel p0 on; steps alone are scales, too.
func (a *tileArgs) setScales(steps []uint16, subs []byte, panels, p0 int) {
	each := len(steps) / panels
	a.scales, a.scaleStride = pointerTo(steps[p0*each:]), 2*each
	if subs != nil {
		a.tops, a.topStride = a.scales, a.scaleStride
		a.scaleStride = len(subs) / panels
		a.scales = pointerTo(subs[p0*a.scaleStride:])
	}
}

// chunks computes chunks of rows that stay in the L2 cache while the panels pass.
func (a *tileArgs) chunks(rows, panels int, f Format) {
	for r := 0; r < rows; r += chunkRows {
		a.each(r, min(rows, r+chunkRows), panels, f)
	}
}

// dotBuffers are a panel's scales and offsets for some inputs.
type dotBuffers [codedInputs / QGroup * groupFloats]float32

var dotBuffersPool sync.Pool // of *dotBuffers

// expandDots computes the tile of a, from panel p0 on, with scales that are expanded for some inputs of a panel at a time.
func (m *Matrix) expandDots(a tileArgs, p0 int, t tile) {
	b, ok := dotBuffersPool.Get().(*dotBuffers)
	if !ok {
		b = new(dotBuffers)
	}
	f, perInput := m.dotFormat(), a.panelStride/m.K
	for p := range t.panels {
		for k := 0; k < t.k; k += codedInputs {
			inputs := min(codedInputs, t.k-k)
			m.expandGroups(b[:], p0+p, k, inputs)
			c := a
			c.dst, c.x, c.w = unsafe.Add(a.dst, p*PanelWidth*4), unsafe.Add(a.x, k/QGroup*roundedGroup), unsafe.Add(a.w, p*a.panelStride+k*perInput)
			c.k, c.scales = inputs/QGroup, unsafe.Pointer(b)
			if k > 0 {
				c.add = 1
			}
			c.chunks(t.rows, 1, f)
		}
	}
	dotBuffersPool.Put(b)
}

// expandGroups is expand for each QGroup inputs.
func (m *Matrix) expandGroups(dst []float32, p, k, inputs int) {
	m.expand(dst, p, k, inputs)
	each := min(m.coded.Group, inputs) / QGroup // of the coding's groups
	for i := inputs/QGroup - 1; i > 0 && each > 1; i-- {
		copy(dst[i*groupFloats:][:groupFloats], dst[i/each*groupFloats:])
	}
}

// dots is part of rows in 8 bits: a panel. Without VNNI, AVX2's kernels take half of it a call.
func (a *tileArgs) dots(rows int, f Format) int {
	if active < avx512vnni {
		a.halfDots(rows, f)
		b := a.half(distances{dst: 32, w: 32, scales: [...]int{stepsBF16: 16, stepsHalf: 16, scalesFloat: 32, subsMins: 8}[a.step]})
		if a.step == subsMins {
			b.tops = unsafe.Add(a.tops, 16)
		}
		b.halfDots(rows, f)
		return 1
	}
	switch f {
	case W8A8:
		avx512W8A8(rows, 1, a)
	case W4A8:
		avx512W4A8(rows, 1, a)
	default:
		avx512ByHalves(rows, 1, a)
	}
	return 1
}

func (a *tileArgs) halfDots(rows int, f Format) {
	switch f {
	case W8A8:
		avx2W8A8(rows, 1, a)
	case W4A8:
		avx2W4A8(rows, 1, a)
	default:
		avx2ByHalves(rows, 1, a)
	}
}
