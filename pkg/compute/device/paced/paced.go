// Package paced has a device that computes real results on the CPU and releases
// them, and counts memory, transfers and start-up, as the profile of another
// device says. Eight of them on one small machine show what placement, stragglers
// and cold starts cost on eight large ones. Every figure made so is the profile's.
//
//   - A call takes what pkg/policy/cost says of its accesses: one of each expert that
//     has rows in it. The device computes one call after the other. A result is
//     released when its rows have also been on the way, there and back.
//   - A load waits for the cold start, and then for its transfer: there is one at a
//     time. Without other settings the next load begins after it, so that
//     transfers have the order of their priorities. A load that rows wait for passes
//     others at the end of a piece of 2 MiB. The devices of a machine may share one
//     link, and the memory below, which experts come to from a store (Machine).
//   - Memory is the profile's bytes for each expert, within the profile's memory or
//     a smaller budget.
//
// The CPU must do in that time what the device would, for all paced devices of a
// machine together. Where it cannot, results are released as soon as they are
// there and counted as late (Report): with more than a few of them, a figure is
// this machine's and not the profile's. Waiting for cores is not seen before
// Compute is called, so watch the machine's load too.
//
// Nothing is released early. On an idle machine a release comes some 50 µs after its
// time, where the system has no precise alarm (wait_other.go) up to a millisecond; on
// a busy one some 200 µs. Report has the sum.
package paced

import (
	"context"
	"math"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Device is a device as a profile describes it.
type Device struct {
	*device.Store[*forward.Expert]
	profile *profiles.Profile
	takes   cost.Device
	wait    waiter
	counts  *counts
	busy    timeline
	// compute is what computes really, with experts that are lent to it.
	compute func(from forward.Lender, in forward.Routed, out []float32, s *forward.ExpertScratch) error
}

var (
	_ device.Device   = (*Device)(nil)
	_ device.Reporter = (*Device)(nil)
)

// New returns a device of a machine for a model's experts that computes on p. The model and p
// are the caller's and outlive it. A budget of 0 is the profile's memory.
func New(m *model.Model, p *pool.Pool, profile *profiles.Profile, on *Machine, s device.Settings) *Device {
	l := newLoader(profile, on, device.PackedOn(m, p, within(profile, s)), newWaiter())
	return newOn(m, p, l, l, s)
}

// newOn returns a device whose experts come through from, which ends in l.
func newOn(m *model.Model, p *pool.Pool, l *loader, from device.Loader[*forward.Expert], s device.Settings) *Device {
	if s.Loads == 0 {
		s.Loads = 1
	}
	return &Device{
		Store:   device.NewStore(m.Spec.Layers, s.Units(m.Spec), from, within(l.profile, s)),
		profile: l.profile, takes: l.profile.Compute(), wait: l.wait, counts: l.counts,
		compute: func(from forward.Lender, in forward.Routed, out []float32, s *forward.ExpertScratch) error {
			return forward.ComputeExperts(p, from, in, out, s)
		},
	}
}

// within bounds what has no bound by the profile's memory, so that experts are packed into what others have left.
func within(profile *profiles.Profile, s device.Settings) device.Settings {
	if s.Budget == 0 {
		s.Budget = profile.Memory()
	}
	return s
}

// Name is "paced:" and the profile's name.
func (d *Device) Name() string { return NameOf(d.profile) }

// NameOf returns the name of a device that is paced as a profile says.
func NameOf(p *profiles.Profile) string { return "paced:" + p.Name }

// Compute returns the CPU's result when the profile's device would have it, or
// when it is there if that is later.
func (d *Device) Compute(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	came := time.Now()
	lent := keeper{Store: d.Store}
	defer lent.giveBack()
	if err := d.compute(&lent, in, out, s); err != nil {
		return err
	}
	took := duration(d.takes.Compute(d.accesses(in.Expert)...))
	due := d.busy.take(came, took).Add(2 * d.profile.Communicate(len(in.Expert)))
	d.counts.computed(took, time.Since(due))
	defer func() { d.counts.released(time.Since(due)) }()
	return d.wait.until(context.Background(), due)
}

// duration is exact where seconds are a whole number of nanoseconds.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// accesses returns those of a call, one of each expert that has rows in it.
func (d *Device) accesses(experts []uint32) (all []cost.Access) {
	rows := map[uint32]int{}
	for _, e := range experts {
		rows[e]++
	}
	for _, n := range rows {
		all = append(all, d.profile.Of(n))
	}
	return all
}

// Close ends the device; see device.Device.
func (d *Device) Close() {
	d.Store.Close()
	d.wait.close()
}

// keeper lends experts of a store and keeps them until all are given back: the
// profile's device computes with them for longer than the CPU.
type keeper struct {
	*device.Store[*forward.Expert]
	lent []forward.ExpertID
}

// Borrow returns the store's; what it lends is noted.
func (k *keeper) Borrow(id forward.ExpertID) *forward.Expert {
	e := k.Store.Borrow(id)
	if e != nil {
		k.lent = append(k.lent, id)
	}
	return e
}

// GiveBack does nothing yet.
func (k *keeper) GiveBack(forward.ExpertID) {}

func (k *keeper) giveBack() {
	for _, id := range k.lent {
		k.Store.GiveBack(id)
	}
}
