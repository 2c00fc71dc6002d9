package imports

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The binary without the tag cuda is static, and has nothing of CUDA's bindings.
func TestDefaultBuild(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./services/switchyard")
	list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, Module+"/pkg/compute/device/cuda") {
		t.Error("the CUDA device is not there at all")
	}
	for _, dep := range deps {
		if match("gorgonia.org/...", dep) || match("github.com/NVIDIA/...", dep) || dep == "runtime/cgo" || dep == Module+"/kernels/cuda/real" || dep == Module+"/kernels/cuda/nvml" {
			t.Errorf("the default build has %s", dep)
		}
	}
}
