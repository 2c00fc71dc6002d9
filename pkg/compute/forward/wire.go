package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// Wire is the element type of rows between services. The direct path rounds at
// the same places, so that it has the pipeline's bits.
type Wire string

// The wire types.
const (
	WireF32  Wire = "f32"
	WireBF16 Wire = "bf16"
)

// Round rounds x to what survives the wire, in place.
func (w Wire) Round(x []float32) {
	if w == WireBF16 {
		cpu.RoundBF16(x)
	}
}

// ElementBytes is the size of one element on the wire.
func (w Wire) ElementBytes() int {
	if w == WireBF16 {
		return 2
	}
	return 4
}
