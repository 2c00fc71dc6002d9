//go:build emulate

package cuda

import (
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda/emulate"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

func emulated(t *testing.T) *emulate.Driver {
	t.Helper()
	driver, err := emulate.NewDriver()
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// With the real kernels, emulated, whole models' logits are the CPU's.
func TestEmulatedBackbone(t *testing.T) {
	t.Run("FP8", func(t *testing.T) { backboneAgrees(t, inFP8(t), emulated(t), 20) })
	for _, name := range decoders {
		t.Run(name, func(t *testing.T) { backboneAgrees(t, modeltest.Golden(t, name), emulated(t), 20) })
	}
}

// And a sequence has the same bits in pieces, in tiles or splits, and beside others.
func TestEmulatedBackboneInvariant(t *testing.T) {
	for parts := 1; parts <= 2; parts++ {
		backboneInvariant(t, modeltest.Golden(t, "mixtral-window"), emulated(t), parts)
		backboneInvariant(t, modeltest.Golden(t, "deepseek_v3"), emulated(t), parts)
	}
}
