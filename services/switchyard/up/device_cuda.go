//go:build cuda

package up

import (
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/images"
	"github.com/switchyard/switchyard/kernels/cuda/nvml"
	"github.com/switchyard/switchyard/kernels/cuda/real"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/gpus/cudabackend"
)

// openGPU returns a GPU that can be used.
func openGPU(index int) (*gpus.GPU, error) {
	d, err := real.Open(index)
	if err != nil {
		return nil, err
	}
	info := d.Info()
	if err := d.Close(); err != nil {
		return nil, err
	}
	all, err := images.All()
	if err != nil {
		return nil, err
	}
	g := &gpus.GPU{Info: info, Backend: cudabackend.Backend{Images: all, Driver: func() (cuda.Driver, error) { return real.Open(index) }}}
	if r, err := nvml.Open(info.PCI); err != nil {
		g.Unwatched = err
	} else {
		g.Watch = gpus.NewWatch(r)
	}
	return g, nil
}
