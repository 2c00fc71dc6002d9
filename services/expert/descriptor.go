package expert

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Expert, Flags: service.FlagsOf((*Command).Config), Loads: service.Loads{Flags: true},
		New: func(d *deployment.Deployment, s service.Settings) (lifecycle.Service, error) {
			return New(d, service.Own[Config](s))
		},
		Check: service.CheckOf[Config], Prepare: prepare,
	}
}

// prepare writes the settings of plans that are given.
func prepare(ctx context.Context, d *deployment.Deployment, s service.Settings) error {
	given := service.Own[Config](s).Plans
	if given == (plan.Settings{}) {
		return nil
	}
	_, err := d.Plans.ChangeSettings(ctx, given)
	return err
}

// Flags are the expert host's own.
type Flags struct {
	ExpertMemory string        `default:"auto" help:"Memory for expert weights on this host, such as 8GiB; auto is no limit where the machine or container has room for all, else what it leaves; 0 is no limit, or what the profile has." placeholder:"BYTES"`
	KeepAlive    time.Duration `default:"60s" help:"How long experts that no plan needs any more stay in this host's memory, unless others need the room; 0 is not at all." placeholder:"TIME" advanced:""`
	Offload      string        `default:"none" help:"Serve more experts than fit: none; lru or lfu, which load them for their rows, and give up those that had none for the longest, or the fewest; fmoe or next-use, which load those that a predictor foretells before their rows come, and give up those that are the least probable, or probably held longest for a use; fmoe+, the latter by chances that are learned (predictor --maps-chances learned)." placeholder:"ORDER"`
	Device       string        `default:"cpu" help:"What computes experts: cpu, cuda (a GPU, or cuda:N the one of that number), or paced (the CPU, in the time and memory of another device)." placeholder:"KIND"`
	GPUMemory    string        `name:"gpu-memory" default:"0" help:"Memory that each host takes of its GPU, such as 40GiB; 0 is nine tenths of what is free." placeholder:"BYTES" advanced:""`
	GPUKernels   string        `name:"gpu-kernels" default:"auto" enum:"auto,mma,wgmma" help:"What multiplies weights of bf16 on a GPU: mma, on all of them, wgmma, on sm_90, or auto, wgmma where the GPU has it. Their results differ in bits." placeholder:"NAME" advanced:""`
	ProfileTime  profiles.Time `default:"roofline" enum:"roofline,measured,printed" help:"What an expert's rows take on a paced device: roofline (its weights are read once an access), measured (the profile's curve) or printed (MoEless's price a row)." placeholder:"FORM" advanced:""`
	Profile      string        `help:"What a paced device takes: the name of a profile, or a YAML file." placeholder:"NAME|FILE"`
}

// Command are those of a process that is an expert host alone.
type Command struct {
	Flags               `embed:""`
	service.UnitedFlags `embed:""`
}

// Config returns what the flags say.
func (c *Command) Config(p service.Process) (Config, error) {
	own, err := c.Flags.Config(p)
	own.United = c.United
	return own, err
}

// Config returns what the flags say.
func (f *Flags) Config(p service.Process) (c Config, err error) {
	if c.AutoMemory = f.ExpertMemory == autoMemory; !c.AutoMemory {
		budget, err := flagvalue.Bytes("expert-memory", f.ExpertMemory)
		if err != nil {
			return c, err
		}
		c.MemoryBudget = uint64(budget)
	}
	c.KeepAlive = f.KeepAlive
	c.Offload = f.Offload
	if err := checkOffload(f.Offload); err != nil {
		return c, err
	}
	if c.Profile, err = f.profile(); err != nil {
		return c, err
	}
	if c.Profile != nil {
		c.Machine = paced.NewMachine(c.Profile)
	}
	c.GPU, err = f.gpu(p)
	return c, err
}

// autoMemory is the budget that follows from the memory that there is.
const autoMemory = "auto"

// profile returns nil for a device that is not paced.
func (f *Flags) profile() (*profiles.Profile, error) {
	switch {
	case f.Device != "paced" && f.Profile == "":
		return nil, nil //nolint:nilnil // there is none
	case f.Device != "paced":
		return nil, fmt.Errorf("--profile is %q; it is of --device paced only", f.Profile)
	case f.Profile == "":
		return nil, fmt.Errorf("--device paced needs --profile: %s, or a file", strings.Join(profiles.Names(), ", "))
	}
	p, err := profiles.Open(f.Profile)
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	if err := p.Take(f.ProfileTime); err != nil {
		return nil, fmt.Errorf("--profile-time: %w", err)
	}
	return p, nil
}

// gpu returns nil for a device that is none.
func (f *Flags) gpu(p service.Process) (*gpus.GPU, error) {
	if gpus.IsGPU(f.Device) && f.ExpertMemory != "0" && f.ExpertMemory != autoMemory {
		return nil, fmt.Errorf("--expert-memory is %s; of --device cuda give --gpu-memory", f.ExpertMemory)
	}
	g, err := gpus.Flag{Name: "device", Device: f.Device, MemoryName: "gpu-memory", Memory: f.GPUMemory, Kinds: "cpu, paced, cuda or cuda:N"}.Open(p.GPU)
	if err != nil {
		return nil, err
	}
	return g, g.MultiplyBy(f.GPUKernels)
}
