//go:build cuda

package cuda

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	built "github.com/switchyard/switchyard/kernels/cuda/images"
	"github.com/switchyard/switchyard/kernels/cuda/real"
)

// realKernels is the first GPU of this machine. Without one the test is skipped.
func realKernels(t testing.TB) cuda.Driver {
	t.Helper()
	var err error
	if images, err = built.All(); err != nil {
		t.Fatal(err)
	}
	driver, err := real.Open(0)
	var none *cuda.NoDriverError
	var index *cuda.IndexError
	if errors.As(err, &none) || errors.As(err, &index) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// Experts of one layer of three models, as many as exceed the GPU's cache, and attention over
// long contexts. What they are compared with has the same (kernels/cuda/baseline/shapes.py).
var (
	mostTogether = 512
	expertShapes = []expertShape{
		{"mixtral-8x7b", 4096, 14336, 8, []int{1, 8, 64, 512, 4096}},
		{"qwen3-30b-a3b", 2048, 768, 64, []int{1, 8, 64, 512, 4096}},
		{"deepseek-v3", 7168, 2048, 16, []int{1, 8, 64, 512, 4096}},
	}
	attendShapes = []attendShape{{"qwen3-30b-a3b", 32, 4, 128, 64, 4096}, {"mixtral-8x7b", 32, 8, 128, 32, 8192}}
	latentShapes = []latentShape{{"deepseek-v3", 128, 512, 64, 64, 4096}}
	ceilingBytes = int64(4 << 30)
	ceilingSteps = 1 << 14
	copiedAtOnce = int64(1 << 29)
	stepModel    = "mixtral-1b"
	stepRows     = []int{1, 8, 32}
	stepMemory   = int64(8 << 30)
)
