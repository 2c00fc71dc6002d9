package forward

import (
	"math"
	"sync/atomic"
)

// anglePositions is how many positions a block of cosines and sines is for.
const anglePositions = 256

// angles are the cosines and sines of each position and frequency. Blocks are made
// when first asked for: some models take millions of positions, which few
// sequences reach. It is safe for concurrent use.
type angles struct {
	freqs  []float32
	scale  float32 // of cosines and sines
	blocks []atomic.Pointer[angleBlock]
}

type angleBlock struct{ cos, sin []float32 }

func newAngles(freqs []float32, scale float64, positions int) *angles {
	return &angles{freqs: freqs, scale: float32(scale), blocks: make([]atomic.Pointer[angleBlock], (positions+anglePositions-1)/anglePositions)}
}

func (a *angles) at(position int) (cos, sin []float32) {
	block := &a.blocks[position/anglePositions]
	b := block.Load()
	if b == nil {
		b = a.fill(position / anglePositions * anglePositions)
		block.Store(b) // another goroutine's would be the same
	}
	from, n := position%anglePositions*len(a.freqs), len(a.freqs)
	return b.cos[from : from+n], b.sin[from : from+n]
}

// fill makes the block that begins with a position. Angles are rounded to float32
// as transformers computes them.
func (a *angles) fill(first int) *angleBlock {
	n := len(a.freqs)
	b := &angleBlock{make([]float32, anglePositions*n), make([]float32, anglePositions*n)}
	for p := range anglePositions {
		for i, f := range a.freqs {
			angle := float64(float32(first+p) * f)
			b.cos[p*n+i], b.sin[p*n+i] = float32(math.Cos(angle))*a.scale, float32(math.Sin(angle))*a.scale
		}
	}
	return b
}
