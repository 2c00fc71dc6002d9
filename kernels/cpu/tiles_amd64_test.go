package cpu

import (
	"io"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
)

// Blocks and chunks of rows, panels and inputs change no bits.
func TestTileBlocks(t *testing.T) {
	defer func(block int) { blockBytes = block }(blockBytes)
	blockBytes = 0
	for _, s := range []struct{ rows, n, k int }{
		{1, 1088, 1056}, {1, 224, 33}, {2, 1088, 1056}, {15, 32, 544}, {17, 64, 64}, {33, 96, 544}, {64, 32, 96}, {65, 32, 96}, {150, 32, 64},
	} {
		x := floats(1, s.rows*s.k)
		m, w := pairsMatrix(2, s.n, s.k)
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, s.rows*s.n)
			if MatMul(got, s.n, x, s.k, s.rows, m, 0, m.Panels()); !sameBits(got, pairsContract(x, w, s.rows, s.n, s.k)) {
				t.Errorf("%d rows, (%d, %d): differs from the contract", s.rows, s.n, s.k)
			}
		})
	}
}

// What the processor refuses, the emulator does, and so do tiles that do not fit each other.
func TestEmulatedConfiguration(t *testing.T) {
	right := func() tilesArgs {
		a := tilesArgs{k: 1}
		a.configurePairs(7, 0, stepPairs)
		return a
	}
	for name, spoil := range map[string]func(c *tilesConfig){
		"palette": func(c *tilesConfig) { c[0] = 0 }, "start row": func(c *tilesConfig) { c[1] = 1 }, "reserved": func(c *tilesConfig) { c[60] = 1 },
		"wide": func(c *tilesConfig) { c.set(4, 7, 65) }, "tall": func(c *tilesConfig) { c.set(4, 17, 64) },
		"no rows": func(c *tilesConfig) { c.set(4, 0, 64) }, "not there": func(c *tilesConfig) { c.set(6, 0, 0) },
		"rows of sums": func(c *tilesConfig) { c.set(0, 8, 64) }, "outputs": func(c *tilesConfig) { c.set(1, 7, 60) },
		"inputs": func(c *tilesConfig) { c.set(4, 7, 32) }, "pairs": func(c *tilesConfig) { c.set(7, 15, 64) },
		"": func(*tilesConfig) {},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if failed := recover(); (failed != nil) != (name != "") {
					t.Errorf("panic: %v", failed)
				}
			}()
			x, w, dst := make([]byte, tileBytes), make([]byte, stepBytes), make([]float32, tileRows*PanelWidth)
			a := right()
			a.x, a.w, a.dst, a.ldDst, a.turns = pointerTo(x), pointerTo(w), pointerTo(dst), 4*PanelWidth, 1
			spoil(&a.config)
			emulateInGo(&a, pairsOne)
		})
	}
}

// A signal while a kernel runs, which Go sends to profile and to preempt, saves tiles and brings them back.
func TestTilesAndSignals(t *testing.T) {
	if !supported(amxTiles) {
		t.Skip("no AMX")
	}
	restore, err := Use("amx")
	if err != nil {
		t.Skip(err)
	}
	defer restore()
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Skip(err) // the test itself is profiled
	}
	defer pprof.StopCPUProfile()
	const rows, n, k = 70, 160, 1024
	m, w := pairsMatrix(1, n, k)
	x := floats(2, rows*k)
	want := tiledChain(x, w, rows, n, k)
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			got := make([]float32, rows*n)
			for range 600 {
				if MatMul(got, n, x, k, rows, m, 0, m.Panels()); !sameBits(got, want) {
					t.Error("differs from the contract")
					return
				}
			}
		})
	}
	for range 20 {
		runtime.GC()
	}
	all.Wait()
}
