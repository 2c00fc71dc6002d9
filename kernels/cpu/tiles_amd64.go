package cpu

import "unsafe"

//go:generate sh -c "cd _asm && GOWORK=off go run . -tiles -out ../tiles_amd64.s -stubs ../tiles_stubs_amd64.go -pkg cpu && sed -Ei 's/([^ ]) +/\\1 /g' ../tiles_amd64.s"

// AMX: tiles of 16 rows of 64 bytes, and instructions that multiply two and add to a third. Tiles are a thread's, and goroutines
// move between threads. So each kernel is one call into assembly, which Go does not preempt, and it loads its configuration,
// computes, and releases the tiles before it returns. A signal meanwhile saves them on the thread's signal stack: 8 KiB and 3 KiB of other
// registers of the 32 KiB that Go's have; Linux refuses its permission where a stack is too small for that.

// tilesArgs is what a kernel of tiles reads. Strides count bytes; the generator knows the offsets of the fields.
type tilesArgs struct {
	dst, x, w             unsafe.Pointer
	ldDst                 int
	next                  uintptr // weights that come after all turns: asked for, not read, and maybe past the last
	otherStride           int     // to the second tile of rows, or the second panel
	k, add                int     // steps of inputs; whether they go on from sums
	turns                 int
	dstStep, xStep, wStep int // from a turn to the next
	config                tilesConfig
}

// tilesConfig is what LDTILECFG loads: the palette, bytes a row of each tile from byte 16 on, rows from 48 on.
type tilesConfig [64]byte

func (c *tilesConfig) set(tile, rows, bytes int) {
	c[0], c[16+2*tile], c[48+tile] = 1, byte(bytes), byte(rows)
}

const (
	stepBytes = stepPairs * 4 * PanelWidth // a step's weights of a panel
	// chunkPairs of a panel stay in the L1 cache while many rows pass. callBytes of weights from memory take some 100 µs.
	chunkPairs = 256
	callBytes  = 1 << 20
)

// blockBytes of rows stay in the L2 cache while panels pass.
var blockBytes = 3 << 19

// tilePairsAMX computes a tile of rows of bf16, which begin where x is and lie in tiles; t.k counts pairs.
func tilePairsAMX(dst []float32, x []byte, w []uint16, t tile) {
	if t.rows == 1 {
		oneRow(dst, x, w, t)
		return
	}
	const pair = 2 * tileRows
	blocks := parts(t.rows, max(2*pair, blockBytes/(4*t.k)/pair*pair))
	block := parts(t.rows, blocks*pair) * pair
	for r := 0; r < t.rows; r += block {
		a := tilesArgs{dst: pointerTo(dst[r*t.ldDst:]), x: pointerTo(x[r/tileRows*stepsOf(t.k)*tileBytes:]), w: pointerTo(w), ldDst: 4 * t.ldDst}
		p := pairTiles{a, t.k, 2 * t.panelStride}
		if rows := min(block, t.rows-r); rows > pair {
			p.manyRows(rows, t.panels)
		} else {
			p.fewRows(rows, t.panels)
		}
	}
}

// oneRow computes what tiles would of one row, without them.
func oneRow(dst []float32, x []byte, w []uint16, t tile) {
	for p := 0; p < t.panels; {
		a := tileArgs{dst: pointerTo(dst[p*PanelWidth:]), x: pointerTo(x), w: pointerTo(w[p*t.panelStride:]), panelStride: 2 * t.panelStride, k: t.k}
		args, left := (*byte)(unsafe.Pointer(&a)), t.panels-p
		switch {
		case left >= 4:
			avx512Steps4(args)
			p += 4
		case left >= 2:
			avx512Steps2(args)
			p += 2
		default:
			avx512Steps1(args)
			p++
		}
	}
}

// pairTiles are rows of bf16 that meet panels.
type pairTiles struct {
	tilesArgs
	k, panelStride int // pairs, bytes
}

// fewRows has up to 32 rows meet one panel after the other.
func (p pairTiles) fewRows(rows, panels int) {
	chunk := max(stepPairs, blockBytes/(4*rows)/stepPairs*stepPairs)
	for from := 0; from < p.k; from += chunk {
		pairs := min(chunk, p.k-from)
		each := max(1, callBytes/(2*stepBytes*stepsOf(pairs))) * 2
		for panel := 0; panel < panels; panel += each {
			p.pairs(place{0, panel, from}, rows, min(each, panels-panel), pairs)
		}
	}
}

// manyRows has a chunk of a panel's inputs meet all rows before the next chunk.
func (p pairTiles) manyRows(rows, panels int) {
	turns := rows / (2 * tileRows)
	rest := rows - turns*2*tileRows
	for panel := range panels {
		for from := 0; from < p.k; from += chunkPairs {
			pairs := min(chunkPairs, p.k-from)
			p.turns = turns
			p.pairs(place{0, panel, from}, 2*tileRows, 1, pairs)
			if rest > 0 {
				p.turns = 0
				p.pairs(place{turns * 2 * tileRows, panel, from}, rest, 1, pairs)
			}
		}
	}
}

// place is where rows, panels and pairs begin.
type place struct{ row, panel, pair int }

// pairs multiplies pairs of inputs of up to 32 rows with panels, or of 32 for each turn, if there are any, with one.
func (p *pairTiles) pairs(at place, rows, panels, pairs int) {
	steps := pairs / stepPairs
	if steps > 0 {
		p.steps(at, rows, panels, steps, stepPairs)
	}
	if rest := pairs % stepPairs; rest > 0 {
		at.pair += steps * stepPairs
		p.steps(at, rows, panels, 1, rest)
	}
}

// steps is pairs for steps of so many pairs.
func (p *pairTiles) steps(at place, rows, panels, steps, pairs int) {
	tiles := stepsOf(p.k) * tileBytes // from 16 rows to the next
	a := p.tilesArgs
	a.dst = unsafe.Add(a.dst, at.row*a.ldDst+at.panel*PanelWidth*4)
	a.x = unsafe.Add(a.x, at.row/tileRows*tiles+at.pair/stepPairs*tileBytes)
	a.w = unsafe.Add(a.w, at.panel*p.panelStride+at.pair*4*PanelWidth)
	a.k, a.add = steps, at.pair // sums of the pairs before
	a.dstStep, a.xStep, a.wStep = 4*PanelWidth, -steps*tileBytes, p.panelStride-steps*stepBytes
	switch {
	case a.turns > 0:
		a.dstStep, a.xStep, a.wStep = 2*tileRows*a.ldDst, 2*tiles-steps*tileBytes, -steps*stepBytes
		a.next, a.otherStride = uintptr(a.w)+uintptr(steps*stepBytes), tiles
		a.configurePairs(tileRows, tileRows, pairs)
		a.call(pairsMany)
	case rows > tileRows:
		a.turns, a.otherStride = panels, tiles
		a.configurePairs(tileRows, rows-tileRows, pairs)
		a.call(pairsTall)
	default:
		a.configurePairs(rows, 0, pairs)
		a.oneTile(panels, p.panelStride)
	}
}

// oneTile has a tile of rows meet panels, two of them at once.
func (a *tilesArgs) oneTile(panels, stride int) {
	b := *a
	if panels > 1 {
		b.turns, b.dstStep, b.wStep, b.otherStride = panels/2, 2*a.dstStep, a.wStep+stride, stride
		b.call(pairsWide)
	}
	if panels%2 > 0 {
		b.dst, b.w, b.turns = unsafe.Add(a.dst, (panels-1)*4*PanelWidth), unsafe.Add(a.w, (panels-1)*stride), 1
		b.call(pairsOne)
	}
}

// configurePairs has sums in tiles 0 to 3, rows in 4, and the second tile of rows, if there is one, in 5. The
// others are weights.
func (a *tilesArgs) configurePairs(rows, second, pairs int) {
	c := &a.config
	*c = tilesConfig{}
	other, weights := rows, 5
	if second > 0 {
		other, weights = second, 6
		c.set(5, second, 4*pairs)
	}
	c.set(0, rows, tileLine)
	c.set(1, rows, tileLine)
	c.set(2, other, tileLine)
	c.set(3, other, tileLine)
	c.set(4, rows, 4*pairs)
	for t := weights; t < 8; t++ {
		c.set(t, pairs, tileLine)
	}
}

func hasTiles() bool { return active == amxTiles }

// placeLines copies a row to where its lines are.
func placeLines(to, row []byte) {
	whole := len(row) / tileLine
	if whole > 0 {
		amxPlace(&to[0], &row[0], whole)
	}
	placeLinesGeneric(to[min(len(to), whole*tileBytes):], row[whole*tileLine:])
}

// emulateTiles stands in for the kernels of tiles in tests, where the processor has no AMX.
var emulateTiles func(a *tilesArgs, k tilesKernel)

// tilesKernel is one of the kernels of tiles.
type tilesKernel int

const (
	pairsMany tilesKernel = iota
	pairsTall
	pairsWide
	pairsOne
)

func (a *tilesArgs) call(k tilesKernel) {
	if emulateTiles != nil {
		// As a number, so that the compiler does not move to the heap what a kernel never keeps.
		address := uintptr(unsafe.Pointer(a))
		emulateTiles(*(**tilesArgs)(unsafe.Pointer(&address)), k)
		return
	}
	b := (*byte)(unsafe.Pointer(a))
	switch k {
	case pairsMany:
		amxPairsMany(b)
	case pairsTall:
		amxPairsTall(b)
	case pairsWide:
		amxPairsWide(b)
	case pairsOne:
		amxPairs(b)
	}
}
