package imports

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The binary without the tag cuda is static, and computes nothing on GPUs; the one with it does.
func TestDefaultBuild(t *testing.T) {
	device := Module + "/pkg/compute/device/cuda"
	deps := func(args ...string) []string {
		list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, args...)...)
		list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	for _, dep := range deps("./services/switchyard") {
		if match("gorgonia.org/...", dep) || match("github.com/NVIDIA/...", dep) || dep == "runtime/cgo" || dep == Module+"/kernels/cuda/real" || dep == Module+"/kernels/cuda/nvml" || dep == device {
			t.Errorf("the default build has %s", dep)
		}
	}
	if !slices.Contains(deps("-e", "-tags", "cuda", "./services/switchyard"), device) {
		t.Error("the build with CUDA has no device")
	}
}
