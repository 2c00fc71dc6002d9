package up

import (
	"strings"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// Experts and attention on one GPU must each say how much of it they take.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	on := func(index int, memory uint64) *gpus.GPU {
		return &gpus.GPU{Info: kernels.Info{Index: index}, Memory: memory}
	}
	for _, tt := range []struct {
		name               string
		experts, attention *gpus.GPU
		refused            bool
	}{
		{"neither", nil, nil, false},
		{"experts alone", on(0, 0), nil, false},
		{"attention alone", nil, on(0, 0), false},
		{"two GPUs", on(0, 0), on(1, 0), false},
		{"both by number", on(0, 1), on(0, 1), false},
		{"both by share", on(0, 0), on(0, 0), true},
		{"experts by share", on(1, 0), on(1, 5), true},
		{"attention by share", on(1, 5), on(1, 0), true},
	} {
		if err := shared(tt.experts, tt.attention); (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "--attention-gpu-memory") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
