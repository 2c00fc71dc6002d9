package expert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/hints"
)

// Config is what an operator sets.
type Config struct {
	// MemoryBudget bounds the bytes of expert weights on this host; 0 is no limit
	// but a profile's.
	MemoryBudget uint64
	// AutoMemory says that MemoryBudget is to be set by what memory there is.
	AutoMemory bool
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
		return c.GPU.Backend.CheckExperts(m)
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

// Experts returns the bytes that the budget counts for all experts of a model, each once, and for the largest.
func (c Config) Experts(m *model.Model) (all, largest int64, err error) {
	if largest, err = c.largest(m); err != nil || c.Profile != nil {
		return int64(m.Spec.MoELayers()*m.Spec.Experts) * largest, largest, err
	}
	_, err = device.Largest(m.Spec, func(id forward.ExpertID) (int64, error) {
		n, err := forward.ExpertBytes(m, id)
		all += n
		return n, err
	})
	return all, largest, err
}

// largest returns the bytes that the budget counts for the largest expert.
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

// device returns what the host computes on.
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

// rent tells a device that is rented what its functions of a layer have by a plan. What the plan
// wants elsewhere keeps what it had: rows come for it until gates have gone over.
func (s *Service) rent(l *plan.Layer) {
	s.rentForBatches(l)
	on, rented := s.device.(*paced.Rented)
	if !rented {
		return
	}
	var all []paced.Rental
	for _, f := range l.Functions {
		if f.MemoryBytes > 0 && plan.WantOn(f, s.id) != 0 {
			all = append(all, paced.Rental{Experts: f.Experts, Memory: float64(f.MemoryBytes), Beside: f.Beside})
		}
	}
	if len(all) > 0 {
		on.Rent(int(l.Layer), all)
	}
}

func (s *Service) rentForBatches(l *plan.Layer) {
	if s.invoked == nil {
		return
	}
	for _, f := range l.Functions {
		if f.MemoryBytes > 0 && plan.WantOn(f, s.id) != 0 {
			s.invoked.Rent(int(l.Layer), f.Id, float64(f.MemoryBytes))
		}
	}
}

// mayPlan waits until the host may plan where no scaler does; false when ctx ends before. Where
// experts are rented the first plan is a scaler's: hosts that spread them evenly would start
// containers for nothing.
func (s *Service) mayPlan(ctx context.Context) bool {
	if s.config.Rent == nil {
		return true
	}
	select {
	case <-s.first:
		return true
	case <-ctx.Done():
		return false
	}
}

// checkUnited refuses united experts that the host cannot hold, or that are not the model's.
func (c Config) checkUnited(m *model.Model) error {
	switch {
	case c.United == "":
		return nil
	case c.Offload != "" && c.Offload != NoOffload:
		return fmt.Errorf("--united is %s, and --offload %s: united experts stay in memory, and a host that offloads has room for nothing else; give one of the two", c.United, c.Offload)
	case c.GPU != nil:
		return errors.New("--united is for expert hosts on cpu or paced; a GPU holds no united experts yet")
	}
	s, err := united.OpenAll(c.United, m)
	if err != nil {
		return fmt.Errorf("--united: %w", err)
	}
	return s.Close()
}

// openUnited returns the host's united experts; nil, if it has none.
func (c Config) openUnited(m *model.Model) (*united.Set, error) {
	if c.United == "" || c.Device != nil {
		return nil, nil //nolint:nilnil // a set of none is nil
	}
	s, err := united.OpenAll(c.United, m)
	if err != nil {
		return nil, fmt.Errorf("--united: %w", err)
	}
	return s, nil
}

// offers returns what the host tells of its united experts. On a paced device one takes as much as
// any expert.
func (s *Service) offers() (all []*pb.UnitedExperts) {
	for _, b := range s.united.Bundles() {
		o := plan.Offer{Bundle: plan.Bundle{Way: b.Way, ID: b.ID()}, Bytes: uint64(b.Bytes()), Without: b.Lacks(), Grouped: b.Grouped()}
		if s.config.Profile != nil {
			o.Bytes = uint64(s.config.Profile.Expert())
		}
		all = append(all, o.Proto())
	}
	return all
}

// followGPU watches the host's GPU, where it says something of itself, until stop is
// called: if it is lost, the device is.
func (s *Service) followGPU(ctx context.Context) (stop func()) {
	d, computes := s.device.(gpus.Experts)
	if !computes {
		return func() {}
	}
	return s.config.GPU.Follow(ctx, s.d.Logger, s.d.Telemetry.Metrics.GPUs, d.Lose)
}

// deviceFailed is closed when the host has lost its device. It hands nothing over
// then: each row that waits for it is late already, and who hears its farewell sends
// rows elsewhere at once.
func (s *Service) deviceFailed() <-chan struct{} {
	if f, ok := s.device.(device.Failer); ok {
		return f.Failed()
	}
	return nil
}

func (s *Service) deviceError() error {
	if f, ok := s.device.(device.Failer); ok && f.Err() != nil {
		return &gpus.Error{Err: fmt.Errorf("%s: %w", s.device.Name(), f.Err())}
	}
	return nil
}

// closeDevice waits for loads, unless the device is somebody else's.
func (s *Service) closeDevice() {
	if s.config.Device == nil {
		s.device.Close()
	}
}

// What Offload may name, beside the orders of package residency.
const (
	// NoOffload is of hosts that hold what they serve, as "" is.
	NoOffload = "none"
	// FMoE, NextUse and FMoEPlus follow what predictors foretell. The last one is the order of the
	// second, for chances that are learned.
	FMoE     = "fmoe"
	NextUse  = "next-use"
	FMoEPlus = "fmoe+"
)

const (
	// aged is what is left of a visit's weight a step later with FMoEPlus, assumed: half after 23.
	aged = 0.97
)

// offload is how one host serves more than it holds.
type offload struct {
	order   residency.Order // of its device; nil: it does not
	outlook hints.Outlook   // of that order; nil: it has none
	fetches bool            // what hints name
	near    bool            // hints are followed for as many layers ahead as there is room for experts
	ended   *atomic.Pointer[func(device.Ended)]
}

// tell tells who has asked that a load has ended.
func (o offload) tell(e device.Ended) {
	if o.ended == nil {
		return
	}
	if tell := o.ended.Load(); tell != nil {
		(*tell)(e)
	}
}

// loadEnded is for a load that has ended: there may be room, or what hints named.
func (s *Service) loadEnded(e device.Ended) {
	if no := (*device.RefusedError)(nil); errors.As(e.Err, &no) {
		return
	}
	s.functions.Freed()
	if e.Err == nil {
		s.follower.Loaded(e)
	}
}

// Foresees reports whether an Offload follows what predictors foretell.
func Foresees(offload string) bool {
	return offload == FMoE || offload == NextUse || offload == FMoEPlus
}

// offload is that of a host for a model.
func (c Config) offload(spec model.Spec) (o offload, err error) {
	if c.Offload == "" || c.Offload == NoOffload {
		return o, nil
	}
	o.ended = &atomic.Pointer[func(device.Ended)]{}
	if err := checkOffload(c.Offload); err != nil {
		return o, err
	}
	order, ageing := c.Offload, 1.0
	if c.Offload == FMoEPlus {
		order, ageing, o.near = NextUse, aged, true
	}
	if !residency.NeedsOutlook(order) {
		o.order, err = residency.Named(order, nil)
		return o, err
	}
	outlook, err := residency.NewOutlook(spec.Layers, spec.Experts, max(1, spec.TopK), ageing)
	if err != nil {
		return o, fmt.Errorf("--offload: %w", err)
	}
	o.order, err = residency.Named(order, outlook)
	o.outlook, o.fetches = outlook, Foresees(c.Offload)
	return o, err
}

// checkOffload refuses what there is not.
func checkOffload(name string) error {
	all := slices.Concat([]string{NoOffload}, residency.Names(), []string{FMoEPlus})
	if name == "" || slices.Contains(all, name) {
		return nil
	}
	return fmt.Errorf("--offload is %q; there is %s", name, strings.Join(all, ", "))
}
