package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// activation is act (R, F) of inner (R, 2F), gate before up in each row, or of
// inner (R, F) without a gate, for the rows [from, to).
type activation func(act, inner []float32, from, to, w int)

func activationOf(f *model.FFNSpec) (activation, error) {
	if f.Activation == model.SwiGLU {
		return swiGLU, nil
	}
	return nil, fmt.Errorf("activation of kind %d is not computed", f.Activation)
}

func swiGLU(act, inner []float32, from, to, w int) {
	for r := from; r < to; r++ {
		g := inner[r*2*w : (r+1)*2*w]
		cpu.SwiGLU(act[r*w:(r+1)*w], g[:w], g[w:])
	}
}
