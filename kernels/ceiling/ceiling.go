// Package ceiling measures what the machine can do at most, so that a
// benchmark can tell its share of it: the rate of float32 FMA in registers and
// of reading memory in order.
package ceiling

import (
	"slices"
	"sync"
	"time"
	"unsafe"
)

const (
	attempts   = 5
	fmaTurns   = 200_000 // about 0.3 ms an attempt
	cacheLine  = 64
	readChunk  = 1 << 20 // bytes of one call into assembly
	fmaPerTurn = 12      // independent chains
)

// FMA returns the float32 operations a second of one thread, counting an FMA as two.
func FMA() float64 { return FMAWithin(1 << 10) }

// FMAWithin is FMA with vectors of at most so many floats: 8 is what AVX2 can reach.
func FMAWithin(most int) float64 {
	width := fmaLoop(fmaTurns, most)
	best := fastest(func() { fmaLoop(fmaTurns, most) })
	return float64(2*fmaTurns*fmaPerTurn*width) / best.Seconds()
}

// Pairs returns the operations a second of one thread on products of bf16, and Bytes on those of bytes: a
// product and its sum are two. 0: the processor has no instruction for them.
func Pairs() float64 { return products(pairsLoop, 32) }

// Bytes returns what Pairs says.
func Bytes() float64 { return products(bytesLoop, 64) }

// TilePairs and TileBytes are Pairs and Bytes by tiles.
func TilePairs() float64 { return products(tilePairsLoop, tileTurn*32/fmaPerTurn) }

// TileBytes returns what TilePairs says.
func TileBytes() float64 { return products(tileBytesLoop, tileTurn*64/fmaPerTurn) }

// tileTurn is how often a turn of the loops for tiles multiplies rows of 32 numbers, or 64 bytes, with 16 outputs: 6 products of 16 rows.
const tileTurn = 6 * 16 * 16

func products(loop func(turns int) bool, each int) float64 {
	if !loop(fmaTurns) {
		return 0
	}
	best := fastest(func() { loop(fmaTurns) })
	return float64(2*fmaTurns*fmaPerTurn*each) / best.Seconds()
}

// Bandwidth returns the bytes a second that threads read together from a
// buffer of so many bytes, after one pass that warms it. A buffer much larger
// than the last cache measures memory, a smaller one that cache.
func Bandwidth(bytes, threads int) float64 {
	threads = max(threads, 1)
	part := max(bytes/threads, readChunk) &^ (readChunk - 1)
	buffer := make([]byte, part*threads+cacheLine)
	for i := range buffer {
		buffer[i] = 1
	}
	skip := int(-uintptr(unsafe.Pointer(&buffer[0])) & (cacheLine - 1))
	best := fastest(func() { readParts(buffer[skip:], part, threads) })
	return float64(part*threads) / best.Seconds()
}

// BandwidthOfPieces returns the rate at which one thread reads one of twenty pieces of so many bytes, or faster, while
// it reads a buffer of so many bytes: neighbours on the processor hardly change it.
func BandwidthOfPieces(bytes, piece int) float64 {
	piece = max(piece, readChunk) &^ (readChunk - 1)
	buffer := make([]byte, max(bytes/piece, 1)*piece+cacheLine)
	for i := range buffer {
		buffer[i] = 1
	}
	skip := int(-uintptr(unsafe.Pointer(&buffer[0])) & (cacheLine - 1))
	var took []time.Duration
	for range attempts {
		for b := buffer[skip:]; len(b) >= piece; b = b[piece:] {
			start := time.Now()
			readAll(b[:piece])
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return float64(piece) / max(took[len(took)/20], 1).Seconds()
}

func readParts(buffer []byte, part, threads int) {
	var wg sync.WaitGroup
	for i := 1; i < threads; i++ {
		wg.Go(func() { readAll(buffer[i*part : (i+1)*part]) })
	}
	readAll(buffer[:part])
	wg.Wait()
}

func readAll(b []byte) {
	for from := 0; from+readChunk <= len(b); from += readChunk {
		readLoop(b[from : from+readChunk])
	}
}

func fastest(f func()) time.Duration {
	best := time.Duration(1<<63 - 1)
	for range attempts {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return max(best, 1)
}
