package gate

import (
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Gate, Flags: service.FlagsOf((*Command).Config), Loads: service.Loads{Flags: true},
		New: service.NewOf(New), Check: service.CheckOf[Config],
	}
}

// Command are the flags of a process that is a gate alone.
type Command struct {
	service.UnitedFlags `embed:""`

	Device string `default:"cpu" help:"What chooses experts: cpu, or cuda (a GPU, or cuda:N the one of that number), with the same bits." placeholder:"KIND"`
}

// Config returns what the flags say.
func (c *Command) Config(p service.Process) (Config, error) {
	all, err := On("device", c.Device, p)
	all.United = c.United
	return all, err
}

// On takes what a flag names to choose experts. Gates take of a GPU what they need.
func On(flag, device string, p service.Process) (c Config, err error) {
	c.GPU, err = gpus.Flag{Name: flag, Device: device, Memory: "0", Kinds: gpus.CPUOrGPU}.Open(p.GPU)
	return c, err
}
