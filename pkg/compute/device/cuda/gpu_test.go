//go:build cuda

package cuda

import (
	"errors"
	"os"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	built "github.com/switchyard/switchyard/kernels/cuda/images"
	"github.com/switchyard/switchyard/kernels/cuda/real"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
)

// realKernels is the first GPU of this machine. Without one the test is skipped.
// With SWITCHYARD_GPU_TESTS set a machine without a GPU fails the tests, rather than skip them: a run that
// was to test a GPU and found none has shown nothing.
const gpuWanted = "SWITCHYARD_GPU_TESTS"

// With SWITCHYARD_GPU_APART set each piece of memory is an allocation of its own: tools
// that watch accesses, such as compute-sanitizer, see one arena as a single buffer.
const gpuApart = "SWITCHYARD_GPU_APART"

// Makes all golden checkpoints whole, for "verify" on a machine without Go.
func TestGoldenFolders(t *testing.T) {
	for _, name := range goldens.Names() {
		if goldens.Dir(name) == "" {
			t.Error(name)
		}
	}
}

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
		if os.Getenv(gpuWanted) != "" {
			t.Fatalf("%s is set: %v", gpuWanted, err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(gpuApart) != "" {
		return cuda.Apart{Driver: driver}
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
	layerModel   = "qwen3-30b-a3b"
	layerRows    = []int{1, 8, 32, 256, 2048}
	layerMemory  = int64(8 << 30)
	stepModel    = "mixtral-1b"
	stepRows     = []int{1, 8, 32}
	stepMemory   = int64(8 << 30)
)
