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
	const rows, n, k = 70, 512, 1024
	m, _ := pairsMatrix(1, n, k)
	x, want := floats(2, rows*k), make([]float32, rows*n)
	MatMul(want, n, x, k, rows, m, 0, m.Panels())
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			got := make([]float32, rows*n)
			for range 200 {
				if MatMul(got, n, x, k, rows, m, 0, m.Panels()); !sameBits(got, want) {
					t.Error("differs from the first time")
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
