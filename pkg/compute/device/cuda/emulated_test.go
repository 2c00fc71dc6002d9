//go:build emulate && !cuda

package cuda

import (
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/emulate"
)

// realKernels is a driver that computes with the kernels' own sources: the emulator.
func realKernels(t testing.TB) cuda.Driver {
	t.Helper()
	driver, err := emulate.NewDriver()
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// What an emulator computes in a reasonable time.
var (
	mostTogether = 40
	expertShapes = []expertShape{{"tiny", 64, 96, 3, []int{1, 40}}}
	attendShapes = []attendShape{{"tiny", 4, 2, 32, 2, 300}}
	latentShapes = []latentShape{{"tiny", 3, 32, 16, 2, 300}}
	ceilingBytes = int64(1 << 16)
	ceilingSteps = 2
	copiedAtOnce = int64(1 << 16)
	layerModel   = "tiny"
	layerRows    = []int{1, 8}
	layerMemory  = int64(512 << 20)
	stepModel    = "tiny"
	stepRows     = []int{3}
	stepMemory   = int64(40 << 20)
)
