// Package ceiling measures what the machine can do at most, so that a
// benchmark can tell its share of it: the rate of float32 FMA in registers and
// of reading memory in order.
package ceiling

import (
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

func readParts(buffer []byte, part, threads int) {
	var wg sync.WaitGroup
	for i := 1; i < threads; i++ {
		wg.Go(func() { readAll(buffer[i*part : (i+1)*part]) })
	}
	readAll(buffer[:part])
	wg.Wait()
}

func readAll(b []byte) {
	for from := 0; from < len(b); from += readChunk {
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
