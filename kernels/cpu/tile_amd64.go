package cpu

import (
	"sync"
	"unsafe"
)

//go:generate sh -c "cd _asm && GOWORK=off go run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg cpu && sed -Ei 's/([^ ]) +/\\1 /g' ../kernels_amd64.s"

// tileArgs is what a tile kernel reads, and zeros, which based kernels write. Strides count bytes; the generator
// knows the offsets of the fields.
type tileArgs struct {
	dst, x, w         unsafe.Pointer
	ldDst, ldX        int
	step, panelStride int
	k, add            int
	ahead             int
	scales            unsafe.Pointer // of packed weights
	scaleStride       int
	tops              unsafe.Pointer // what scales of a span share
	topStride         int
	zeros             int // written by based kernels: not 0 if an output is zero and a chain underflowed
}

// stored is where a tile's weights lie and how.
type stored struct {
	Format
	w, scales unsafe.Pointer
}

// elementSize is the bytes of what a tile's strides count.
var elementSize = [...]int{F32: 4, BF16: 2, MXFP4: 1, FP8: 1, Q8: 1, Q4: 1}

// scaleSize is the bytes of a scale.
var scaleSize = [...]int{F32: 0, BF16: 0, MXFP4: 1, FP8: 4, Q8: 2, Q4: 2}

func tileF32(dst, x, w []float32, t tile) {
	if active == generic || t.k == 0 {
		tileF32Generic(dst, x, w, t)
		return
	}
	t.run(dst, x, stored{Format: F32, w: unsafe.Pointer(unsafe.SliceData(w))})
}

// headsAtOnce returns how many of n heads one call of a kernel takes. AVX2 has too
// few registers to gain from more than one head.
func headsAtOnce(rows, n int) int {
	switch {
	case active < avx512 || rows > mostPerHead || n < 2:
		return 1
	case n < mostHeads:
		return 2
	}
	return mostHeads
}

// tileF32Heads computes the tiles of some of n heads and returns of how many.
func tileF32Heads(dst, x, w []float32, n, stride int, t tile) int {
	heads := headsAtOnce(t.rows, n)
	if heads == 1 || t.k == 0 {
		tileF32(dst, x, w, t)
		return 1
	}
	a := t.headArgs(x, stride, F32)
	for p := range t.panels {
		a.dst, a.w = pointerTo(dst[p*PanelWidth:]), pointerTo(w[p*t.panelStride:])
		avx512Heads(t.rows, heads, &a)
	}
	return heads
}

// tileBF16Heads is tileF32Heads with weights of bf16, two in a word.
func tileBF16Heads(dst, x, w []float32, n, stride int, t tile) int {
	heads := headsAtOnce(t.rows, n)
	if heads == 1 || t.k == 0 {
		tileBF16(dst, x, halves(w), t)
		return 1
	}
	a := t.headArgs(x, stride, BF16)
	for p := range t.panels {
		a.dst, a.w = pointerTo(dst[p*PanelWidth:]), pointerTo(halves(w)[p*t.panelStride:])
		avx512HeadsBF16(t.rows, heads, &a)
	}
	return heads
}

// headArgs returns those of tiles of heads that are so many words apart.
func (t tile) headArgs(x []float32, stride int, f Format) tileArgs {
	a := tileArgs{
		x: pointerTo(x), ldDst: t.ldDst * 4, ldX: t.ldX * 4,
		step: t.step * elementSize[f], panelStride: stride * 4, k: t.k, ahead: t.ahead,
	}
	if t.add {
		a.add = 1
	}
	return a
}

func tileBF16(dst, x []float32, w []uint16, t tile) {
	if active == generic || t.k == 0 {
		tileBF16Generic(dst, x, w, t)
		return
	}
	t.run(dst, x, stored{Format: BF16, w: unsafe.Pointer(unsafe.SliceData(w))})
}

func tileMXFP4(dst, x []float32, codes, exps []byte, t tile) {
	if active == generic || t.k == 0 {
		tileMXFP4Generic(dst, x, codes, exps, t)
		return
	}
	t.run(dst, x, stored{MXFP4, unsafe.Pointer(unsafe.SliceData(codes)), unsafe.Pointer(unsafe.SliceData(exps))})
}

func tileFP8(dst, x []float32, codes []byte, scales []float32, t tile) {
	if active == generic || t.k == 0 {
		tileFP8Generic(dst, x, codes, scales, t)
		return
	}
	t.run(dst, x, stored{FP8, unsafe.Pointer(unsafe.SliceData(codes)), unsafe.Pointer(unsafe.SliceData(scales))})
}

func tileQ(dst, x []float32, codes []byte, steps []uint16, f Format, t tile) {
	if active == generic || t.k == 0 {
		tileQGeneric(dst, x, codes, steps, f, t)
		return
	}
	t.run(dst, x, stored{f, unsafe.Pointer(unsafe.SliceData(codes)), unsafe.Pointer(unsafe.SliceData(steps))})
}

// run computes the tile in chunks of rows that stay in the L2 cache while the
// panels pass.
func (t *tile) run(dst, x []float32, w stored) {
	if t.rows <= chunkRows {
		t.runChunk(dst, x, w)
		return
	}
	for r := 0; r < t.rows; r += chunkRows {
		part := *t
		part.rows = min(chunkRows, t.rows-r)
		part.runChunk(dst[r*t.ldDst:], x[r*t.ldX:], w)
	}
}

// chunkRows rows of 2048 inputs are 384 KiB.
const chunkRows = 48

// Rows at a multiple of this stride (4 KiB) fall into the same sets of the L1
// cache; more than a few of them at once evict each other.
const (
	aliasFloats = 1024
	aliasRows   = 7
	aliasPad    = 16
)

var spreads sync.Pool // of *[]float32

// runChunk first copies rows that would evict each other, if enough panels follow to pay for it.
func (t *tile) runChunk(dst, x []float32, w stored) {
	if t.rows < aliasRows || t.panels < 4 || t.ldX%aliasFloats != 0 {
		t.runRows(dst, x, w)
		return
	}
	buffer, ok := spreads.Get().(*[]float32)
	if !ok {
		buffer = new([]float32)
	}
	ld := t.k + aliasPad
	if cap(*buffer) < t.rows*ld {
		*buffer = make([]float32, t.rows*ld)
	}
	spread := (*buffer)[:t.rows*ld]
	for r := range t.rows {
		copy(spread[r*ld:][:t.k], x[r*t.ldX:])
	}
	u := *t
	u.ldX = ld
	u.runRows(dst, spread, w)
	spreads.Put(buffer)
}

func (t *tile) runRows(dst, x []float32, w stored) {
	size := elementSize[w.Format]
	a := tileArgs{
		ldDst: t.ldDst * 4, ldX: t.ldX * 4,
		step: t.step * size, panelStride: t.panelStride * size, k: t.k, ahead: t.ahead,
		scaleStride: t.scaleStride * scaleSize[w.Format],
	}
	if t.add {
		a.add = 1
	}
	a.dst, a.x, a.w, a.scales = pointerTo(dst), pointerTo(x), w.w, w.scales
	a.each(0, t.rows, t.panels, w.Format)
}
