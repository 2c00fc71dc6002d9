package expert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/services/expert/hints"
)

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

// Foresees says whether an Offload follows what predictors foretell.
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
