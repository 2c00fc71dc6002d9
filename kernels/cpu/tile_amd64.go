package cpu

import (
	"sync"
	"unsafe"
)

//go:generate sh -c "cd _asm && go run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg cpu"

// tileArgs is what a tile kernel reads. Strides count bytes; the generator
// knows the offsets of the fields.
type tileArgs struct {
	dst, x, w         unsafe.Pointer
	ldDst, ldX        int
	step, panelStride int
	k, add            int
	ahead             int
	scales            unsafe.Pointer // of packed weights
	scaleStride       int
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

// headsAtOnce is how many of n heads one call of a kernel takes. AVX2 has too
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

// headArgs are those of tiles of heads that are so many words apart.
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
func (t tile) run(dst, x []float32, w stored) {
	for r := 0; r < t.rows; r += chunkRows {
		part := t
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
func (t tile) runChunk(dst, x []float32, w stored) {
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
	t.ldX = ld
	t.runRows(dst, spread, w)
	spreads.Put(buffer)
}

// runRows cuts a chunk into the kernels' shapes. Every few panels meet all
// rows before the next panels are read.
func (t tile) runRows(dst, x []float32, w stored) {
	size := elementSize[w.Format]
	a := tileArgs{
		ldDst: t.ldDst * 4, ldX: t.ldX * 4,
		step: t.step * size, panelStride: t.panelStride * size, k: t.k, ahead: t.ahead,
		scaleStride: t.scaleStride * scaleSize[w.Format],
	}
	if t.add {
		a.add = 1
	}
	from := unsafe.Pointer(unsafe.SliceData(dst))
	for p := 0; p < t.panels; p += mostPanels {
		for r := 0; r < t.rows; {
			rows := nextRows(t.rows-r, tallest(w.Format))
			a.x = unsafe.Pointer(unsafe.SliceData(x[r*t.ldX:]))
			a.dst = unsafe.Add(from, r*a.ldDst+p*PanelWidth*4)
			a.w = unsafe.Add(w.w, p*a.panelStride)
			a.scales = unsafe.Add(w.scales, p*a.scaleStride)
			a.strip(rows, min(mostPanels, t.panels-p), w.Format)
			r += rows
		}
	}
}

// mostPanels is the most that one call of a kernel takes.
const mostPanels = 4

// tallest is the most rows that one call of a kernel takes. Scales of packed
// weights take registers too.
func tallest(f Format) int {
	switch {
	case active >= avx512:
		return 12
	case f >= MXFP4:
		return 4
	}
	return 6
}

// nextRows cuts rows into the fewest parts of nearly equal height: a short
// last part would keep too few accumulators busy.
func nextRows(rows, tall int) int {
	parts := (rows + tall - 1) / tall
	return (rows + parts - 1) / parts
}

// The methods below take a by value: a pointer would make the compiler move
// every caller's vectors to the heap.

// strip computes rows × n panels with calls of one kernel after another.
func (a tileArgs) strip(rows, n int, f Format) {
	if active >= avx512 {
		a.strip512(rows, n, f)
		return
	}
	a.strip2(rows, n, f)
}

// strip512 takes as many panels a call as the registers hold for so many rows.
func (a tileArgs) strip512(rows, n int, f Format) {
	height := rows
	if f >= MXFP4 {
		height++ // scales take registers, too
	}
	for n > 0 {
		panels := panelsFor(height, n)
		switch f {
		case BF16:
			avx512BF16(rows, panels, &a)
		case F32:
			avx512F32(rows, panels, &a)
		case MXFP4:
			avx512MXFP4(rows, panels, &a)
		case FP8:
			avx512FP8(rows, panels, &a)
		case Q8:
			avx512Q8(rows, panels, &a)
		case Q4:
			avx512Q4(rows, panels, &a)
		}
		if n -= panels; n > 0 {
			a = a.next(panels)
		}
	}
}

// panelsFor is how many of n panels AVX-512's registers hold for so many rows.
func panelsFor(rows, n int) int {
	switch {
	case rows <= 3 && n >= 4:
		return 4
	case rows <= 6 && n >= 2:
		return 2
	}
	return 1
}

// strip2 takes two panels, one, or half of one a call.
func (a tileArgs) strip2(rows, n int, f Format) {
	for n > 0 {
		panels, whole := 1, 3 // rows of a call that takes whole panels
		switch {
		case f >= MXFP4:
			whole = 1
		case rows == 1 && n >= 2:
			panels = 2
		}
		if rows <= whole {
			a.call2(rows, 2*panels, f)
		} else {
			a.halves(rows, f)
		}
		if n -= panels; n > 0 {
			a = a.next(panels)
		}
	}
}

func (a tileArgs) call2(rows, groups int, f Format) {
	switch f {
	case F32:
		avx2F32(rows, groups, &a)
	case BF16:
		avx2BF16(rows, groups, &a)
	case MXFP4:
		avx2MXFP4(rows, groups, &a)
	case FP8:
		avx2FP8(rows, groups, &a)
	case Q8:
		avx2Q8(rows, groups, &a)
	case Q4:
		avx2Q4(rows, groups, &a)
	}
}

// halves computes a panel in two calls: outputs 0–7 and 16–23, then the others.
func (a tileArgs) halves(rows int, f Format) {
	a.call2(rows, 1, f)
	half := halfPanel[f]
	a.dst, a.w = unsafe.Add(a.dst, half.dst), unsafe.Add(a.w, half.w)
	if f >= MXFP4 {
		a.scales = unsafe.Add(a.scales, half.scales)
	}
	a.call2(rows, 1, f)
}

// halfPanel is the distance in bytes from output 0 of a panel to output 8.
var halfPanel = [...]struct{ dst, w, scales int }{
	F32: {32, 32, 0}, BF16: {32, 32, 0}, MXFP4: {32, 32, 8}, FP8: {32, 16, 32}, Q8: {32, 8, 16}, Q4: {32, 32, 16},
}

// next moves on. It must not move past the last panel: the collector would
// take the pointer for one to the neighbouring object.
func (a tileArgs) next(panels int) tileArgs {
	a.dst = unsafe.Add(a.dst, panels*PanelWidth*4)
	a.w = unsafe.Add(a.w, panels*a.panelStride)
	a.scales = unsafe.Add(a.scales, panels*a.scaleStride)
	return a
}
