package paced

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Machine is what the devices of one machine share, as their profile says: a link, and the memory
// that experts come from, if that does not have all of them.
type Machine struct {
	link  *link // nil: each device has its own
	below *tier // nil: the memory has all experts
}

// NewMachine returns a machine whose memory holds none yet.
func NewMachine(p *profiles.Profile) *Machine {
	m := &Machine{}
	if p.Shared.Value > 0 {
		m.link = &link{}
	}
	if p.Below.Value > 0 {
		m.below = &tier{link: &link{}, holds: residency.New(residency.Settings{Budget: int64(p.Below.Value)}), bytes: p.Expert()}
	}
	return m
}

// tier is a machine's memory, which holds the experts that devices took last, and the way from the
// store to it.
type tier struct {
	link  *link
	bytes int64 // of an expert

	mu    sync.Mutex
	holds *residency.Machine
}

// bring has an expert in memory, where it stays until let go. It may have to come from the store,
// which r waits for.
func (t *tier) bring(ctx context.Context, r *run, id forward.ExpertID) (let func(), err error) {
	u := unit.Expert(id.Layer, id.Expert)
	if t.hold(u, false) {
		return func() { t.release(u) }, nil
	}
	if err := r.begin(ctx, t.link, r.profile.Fetch()); err != nil {
		return nil, err
	}
	defer r.leave()
	if t.hold(u, false) { // another device has brought it
		return func() { t.release(u) }, nil
	}
	if err := r.spend(ctx, r.takes, time.Now()); err != nil {
		return nil, err
	}
	if t.hold(u, true) {
		return func() { t.release(u) }, nil
	}
	return func() {}, nil // what is held is on its way to devices: this one's goes through
}

// hold takes a reference to an expert that the memory holds; with come it does from now on, if there
// is room.
func (t *tier) hold(u unit.Unit, come bool) (held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !come && t.holds.Phase(u) != residency.Held {
		return false
	}
	t.holds.Want(residency.Want{Unit: u, Bytes: t.bytes, Urgency: residency.Demanded})
	for a, ok := t.holds.Next(); ok; a, ok = t.holds.Next() {
		switch a.Kind {
		case residency.Load:
			t.holds.Loaded(a.Unit)
		case residency.Evict:
			t.holds.Evicted(a.Unit)
		case residency.Refuse:
			return false
		case residency.Ready, residency.Resume, residency.Cancel:
		}
	}
	return t.holds.Phase(u) == residency.Held
}

func (t *tier) release(u unit.Unit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds.Release(u)
}
