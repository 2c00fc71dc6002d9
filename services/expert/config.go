package expert

import (
	"cmp"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// Config is what an operator sets.
type Config struct {
	// MemoryBudget bounds the bytes of expert weights on this host; 0 is no limit
	// but a profile's.
	MemoryBudget uint64
	// KeepAlive is how long experts stay in memory that nobody needs, if nobody else
	// needs their room; 0 is not at all.
	KeepAlive time.Duration
	// Offload, if set, lets the host serve more than it holds: experts are loaded for their
	// rows, and stay while there is room. It names who decides which make room for others.
	Offload string
	// Profile is of the device that the host is paced as; nil is the CPU as it is.
	Profile *profiles.Profile
	// Machine is what paced hosts of a process share; nil: each is on a machine of its own.
	Machine *paced.Machine
	// Rent is the serverless platform that the host is of; nil: it is of none.
	Rent *Rent
	// Batches is the serverless platform of functions that plans rent for batches; nil: there is none.
	Batches *Batches
	// GPU is what computes in the CPU's place; nil is none.
	GPU *gpus.GPU
	// United is the folder of united experts that the host can load; empty: it has none.
	United string
	// Plans are settings of plans that are written before the host starts; those that are
	// empty or 0 stay as they are.
	Plans plan.Settings
	// Device, if set, is what the host computes on, rather than one of its own, and stays
	// open when the host ends, for measurements.
	Device device.Device
	// Unloadable, if set, is told when a function cannot be loaded for another reason than memory,
	// and must not wait; the host tries again.
	Unloadable func(error)
}

// Rent is a serverless platform, on which functions take the time of the memory that plans rent
// them with.
type Rent struct {
	Name   string
	System *serverless.System
	Seed   uint64 // of what invocations take beside their work
}

// Batches is a serverless platform whose functions experts are, as plans for batches rent them
// (policy bo-ods).
type Batches struct {
	Name   string
	System *scatter.System
	Seed   uint64 // of what invocations take to start
}

// Check refuses a budget that does not hold one expert of a model, or that the
// profile's device does not have.
func (c Config) Check(m *model.Model) error {
	if c.KeepAlive < 0 {
		return fmt.Errorf("--keep-alive is %v; it must be 0 or more", c.KeepAlive)
	}
	if _, err := c.offload(m.Spec); err != nil {
		return err
	}
	if err := c.checkUnited(m); err != nil {
		return err
	}
	if c.GPU != nil {
		return cuda.Check(m)
	}
	one, err := c.largest(m)
	if err != nil {
		return err
	}
	if c.MemoryBudget > 0 && c.MemoryBudget < uint64(one) {
		return fmt.Errorf("--expert-memory is %d bytes; an expert of %s has %d: give at least as much, or 0 for no limit", c.MemoryBudget, c.whose(m), one)
	}
	if c.Profile != nil && c.MemoryBudget > uint64(c.Profile.Memory()) {
		return fmt.Errorf("--expert-memory is %d bytes; profile %s has %d: give at most as much, or 0 for all", c.MemoryBudget, c.Profile.Name, c.Profile.Memory())
	}
	return nil
}

// largest is the bytes that the budget counts for the largest expert.
func (c Config) largest(m *model.Model) (int64, error) {
	switch {
	case c.Rent != nil:
		return int64(c.Rent.System.Expert), nil
	case c.Profile != nil:
		return c.Profile.Expert(), nil
	}
	return device.Largest(m.Spec, func(id forward.ExpertID) (int64, error) { return forward.ExpertBytes(m, id) })
}

func (c Config) whose(m *model.Model) string {
	if c.Profile != nil {
		return "profile " + c.Profile.Name
	}
	return "model " + m.Name
}

// device is what the host computes on.
func (c Config) device(d *deployment.Deployment, o offload, beside device.Beside) (device.Device, error) {
	s := device.Settings{Budget: int64(c.MemoryBudget), Beside: beside, Order: o.order, Ended: func(e device.Ended) {
		countLoad(d.Telemetry.Metrics.Hosts, e)
		o.tell(e)
	}}
	switch {
	case c.Device != nil:
		return c.Device, nil
	case c.GPU != nil:
		return c.GPU.Experts(d.Model, d.Wire, s)
	case c.Rent != nil:
		return paced.NewRented(d.Model, d.Pool, c.Rent.System, c.Rent.Name, c.Rent.Seed, s), nil
	case c.Profile != nil:
		return paced.New(d.Model, d.Pool, c.Profile, cmp.Or(c.Machine, paced.NewMachine(c.Profile)), s), nil
	}
	return device.NewCPU(d.Model, d.Pool, s), nil
}
