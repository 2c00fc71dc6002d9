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
	// FMoE and NextUse follow what predictors foretell.
	FMoE    = "fmoe"
	NextUse = "next-use"
)

// offload is how one host serves more than it holds.
type offload struct {
	order   residency.Order // of its device; nil: it does not
	outlook hints.Outlook   // of that order; nil: it has none
	fetches bool            // what hints name
	freed   *atomic.Pointer[func()]
}

// tell says that a load has ended, which may have left room.
func (o offload) tell(e device.Ended) {
	if o.freed == nil {
		return
	}
	no := (*device.RefusedError)(nil)
	if f := o.freed.Load(); f != nil && !errors.As(e.Err, &no) {
		(*f)()
	}
}

// Foresees says whether an Offload follows what predictors foretell.
func Foresees(offload string) bool { return offload == FMoE || offload == NextUse }

// offload is that of a host for a model.
func (c Config) offload(spec model.Spec) (o offload, err error) {
	if c.Offload == "" || c.Offload == NoOffload {
		return o, nil
	}
	o.freed = &atomic.Pointer[func()]{}
	if slices.Contains(residency.Names(), c.Offload) {
		o.order, err = residency.Named(c.Offload)
		return o, err
	}
	if err := checkOffload(c.Offload); err != nil {
		return o, err
	}
	outlook, err := residency.NewOutlook(spec.Layers, spec.Experts, max(1, spec.TopK), 1)
	if err != nil {
		return o, fmt.Errorf("--offload: %w", err)
	}
	o.order, err = residency.Foresighted(c.Offload, outlook)
	o.outlook, o.fetches = outlook, Foresees(c.Offload)
	return o, err
}

// checkOffload refuses what there is not.
func checkOffload(name string) error {
	all := slices.Concat([]string{NoOffload}, residency.Names(), residency.ForesightedNames())
	if name == "" || slices.Contains(all, name) {
		return nil
	}
	return fmt.Errorf("--offload is %q; there is %s", name, strings.Join(all, ", "))
}
