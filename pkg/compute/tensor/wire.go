// Package tensor is rows of float32 in memory and in messages: their element type
// between services, the rounding that it means, and their encoding.
package tensor

import "github.com/switchyard/switchyard/kernels/cpu"

// Wire is the element type of rows between services. The direct path rounds at
// the same places, so that it has the pipeline's bits.
type Wire string

// The wire types.
const (
	F32  Wire = "f32"
	BF16 Wire = "bf16"
)

// Round rounds x to what survives the wire, in place.
func (w Wire) Round(x []float32) {
	if w == BF16 {
		cpu.RoundBF16(x)
	}
}

// ElementBytes returns the size of one element on the wire.
func (w Wire) ElementBytes() int {
	if w == BF16 {
		return 2
	}
	return 4
}
