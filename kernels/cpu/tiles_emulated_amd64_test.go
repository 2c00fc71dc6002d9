package cpu

import (
	"fmt"
	"unsafe"
)

// emulateInGo does what a kernel of _asm/tiles.go does, instruction by instruction.
func emulateInGo(a *tilesArgs, k tilesKernel) {
	e := emulatedTiles{tilesArgs: a}
	switch k {
	case pairsMany, pairsTall:
		e.tall = true
	case pairsWide:
		e.wide = true
	case pairsOne:
	}
	e.configure(&a.config)
	for turn := range a.turns {
		x, w := unsafe.Add(a.x, turn*(a.k*tileBytes+a.xStep)), unsafe.Add(a.w, turn*(a.k*stepBytes+a.wStep))
		e.begin(unsafe.Add(a.dst, turn*a.dstStep))
		for s := range a.k {
			e.step(unsafe.Add(x, s*tileBytes), unsafe.Add(w, s*stepBytes))
		}
		e.end(unsafe.Add(a.dst, turn*a.dstStep))
	}
}

// emulatedTiles are the processor's tiles. What the processor refuses panics: Intel's manual, volume 2, LDTILECFG and TDPBF16PS.
type emulatedTiles struct {
	*tilesArgs
	tall, wide bool
	tiles      [8]emulatedTile
}

type emulatedTile struct {
	rows, bytes int // as configured
	data        [tileBytes]byte
}

func (e *emulatedTiles) configure(c *tilesConfig) {
	if c[0] != 1 {
		panic(fmt.Sprintf("cpu: palette %d of tiles", c[0]))
	}
	for i, v := range c[1:] {
		if at := i + 1; v != 0 && (at < 16 || at >= 32 && at < 48 || at >= 56 || at%2 == 1 && at < 32) {
			panic(fmt.Sprintf("cpu: byte %d of the tiles' configuration is %d", at, v))
		}
	}
	for i := range e.tiles {
		t := &e.tiles[i]
		t.bytes, t.rows = int(c[16+2*i]), int(c[48+i])
		if t.rows > tileRows || t.bytes > tileLine || (t.rows == 0) != (t.bytes == 0) {
			panic(fmt.Sprintf("cpu: tile %d has %d rows of %d bytes", i, t.rows, t.bytes))
		}
	}
}

// sums are how many tiles have sums: the first ones.
func (e *emulatedTiles) sums() int {
	if e.tall || e.wide {
		return 4
	}
	return 2
}

// place is where a tile of sums lies, in bytes.
func (e *emulatedTiles) place(tile int) int {
	second := tileRows * e.ldDst
	if e.wide {
		second = 4 * PanelWidth
	}
	return tile/2*second + tile%2*tileLine
}

func (e *emulatedTiles) begin(dst unsafe.Pointer) {
	for i := range e.sums() {
		if e.add != 0 {
			e.load(i, unsafe.Add(dst, e.place(i)), e.ldDst)
		} else {
			clear(e.used(i).data[:])
		}
	}
}

func (e *emulatedTiles) end(dst unsafe.Pointer) {
	for i := range e.sums() {
		t, at := e.used(i), unsafe.Add(dst, e.place(i))
		for r := range t.rows {
			copy(unsafe.Slice((*byte)(unsafe.Add(at, r*e.ldDst)), t.bytes), t.data[r*tileLine:])
		}
	}
}

func (e *emulatedTiles) step(x, w unsafe.Pointer) {
	const line = 4 * PanelWidth
	e.load(4, x, tileLine)
	e.load(6, w, line)
	e.multiply(0, 4, 6)
	e.load(7, unsafe.Add(w, tileLine), line)
	e.multiply(1, 4, 7)
	switch {
	case e.tall:
		e.load(5, unsafe.Add(x, e.otherStride), tileLine)
		e.multiply(2, 5, 6)
		e.multiply(3, 5, 7)
	case e.wide:
		other := unsafe.Add(w, e.otherStride)
		e.load(5, other, line)
		e.multiply(2, 4, 5)
		e.load(6, unsafe.Add(other, tileLine), line)
		e.multiply(3, 4, 6)
	}
}

// used is a tile that the configuration has.
func (e *emulatedTiles) used(tile int) *emulatedTile {
	t := &e.tiles[tile]
	if t.rows == 0 {
		panic(fmt.Sprintf("cpu: tile %d is not configured", tile))
	}
	return t
}

// load is TILELOADD of lines that are so many bytes apart; what a tile does not have becomes zero.
func (e *emulatedTiles) load(tile int, at unsafe.Pointer, apart int) {
	t := e.used(tile)
	clear(t.data[:])
	for r := range t.rows {
		copy(t.data[r*tileLine:], unsafe.Slice((*byte)(unsafe.Add(at, r*apart)), t.bytes))
	}
}

// multiply is TDPBF16PS.
func (e *emulatedTiles) multiply(dst, rows, weights int) {
	d, x, w := e.used(dst), e.used(rows), e.used(weights)
	if d.rows != x.rows || d.bytes != w.bytes || x.bytes != 4*w.rows {
		panic(fmt.Sprintf("cpu: sums of %d rows of %d bytes, of %d of %d and %d of %d", d.rows, d.bytes, x.rows, x.bytes, w.rows, w.bytes))
	}
	for r := range d.rows {
		for j := range d.bytes / 4 {
			out := (*float32)(unsafe.Pointer(&d.data[r*tileLine+4*j]))
			*out = addPairs(*out, x.data[r*tileLine:][:x.bytes], w.data[4*j:])
		}
	}
}

// addPairs is TDPBF16PS of an output: the products of the pairs' first halves and those of the second ones are summed
// for themselves. Weights of a pair are a line of a tile behind those of the one before.
func addPairs(acc float32, x, w []byte) float32 {
	half := func(b []byte) float32 { return widened(uint16(b[0]) | uint16(b[1])<<8) }
	var sums [2]float32
	for i := range len(x) / 2 {
		sums[i%2] = fmaNormal(half(x[2*i:]), half(w[i/2*tileLine+i%2*2:]), sums[i%2])
	}
	return normal(normal(acc) + normal(sums[0]+sums[1]))
}
