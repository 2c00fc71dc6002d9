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
	switch f.Activation {
	case model.SwiGLU:
		return swiGLU, nil
	case model.ClampedSwiGLU:
		return clampedSwiGLU(f.Limit), nil
	case model.GELU:
		return gelu, nil
	case model.GELUTanh:
		return geluTanh, nil
	}
	return nil, fmt.Errorf("activation of kind %d is not computed", f.Activation)
}

func swiGLU(act, inner []float32, from, to, w int) {
	for r := from; r < to; r++ {
		g := inner[r*2*w : (r+1)*2*w]
		cpu.SwiGLU(act[r*w:(r+1)*w], g[:w], g[w:])
	}
}

func clampedSwiGLU(limit float32) activation {
	return func(act, inner []float32, from, to, w int) {
		for r := from; r < to; r++ {
			g := inner[r*2*w : (r+1)*2*w]
			cpu.ClampedSwiGLU(act[r*w:(r+1)*w], g[:w], g[w:], limit)
		}
	}
}

func gelu(act, inner []float32, from, to, w int) {
	cpu.GELU(act[from*w:to*w], inner[from*w:to*w])
}

func geluTanh(act, inner []float32, from, to, w int) {
	cpu.GELUTanh(act[from*w:to*w], inner[from*w:to*w])
}
