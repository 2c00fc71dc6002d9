//go:build !cuda

package up

import (
	"errors"

	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// openGPU says that this is the binary without CUDA, which is static and needs no driver.
func openGPU(int) (*gpus.GPU, error) {
	return nil, errors.New("this binary has no CUDA: make build-cuda makes bin/switchyard-cuda, which has")
}
