package scaler

import (
	"math"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// busyAim is the share of its time that a host is to compute in: the rest is for peaks.
	busyAim = 0.7
	// busyFor is over how many seconds work is averaged.
	busyFor = 30
	// mostHosts bounds what hosts can make of this by what they say.
	mostHosts = 10_000
)

// work is what expert hosts have to do: how many of them would be busy all the time with it, on
// the average of the last while. It has no clock.
type work struct {
	spent  map[string]float64 // seconds in which each host has computed, so far
	looked float64            // when
	hosts  float64
	known  bool
	least  int // that hold all experts, by their budgets
}

// look takes in what hosts say.
func (w *work) look(now float64, hosts []*pb.Member) {
	spent := make(map[string]float64, len(hosts))
	passed, busy := now-w.looked, 0.0
	for _, m := range hosts {
		seconds, says := m.Stats[members.HostSeconds]
		if !says || !(seconds >= 0) || math.IsInf(seconds, 1) {
			continue
		}
		spent[m.Id] = seconds
		if before, here := w.spent[m.Id]; here && passed > 0 {
			busy += min(max((seconds-before)/passed, 0), 1)
		}
	}
	switch first := w.spent == nil; {
	case first:
	case passed < 1: // members tell of themselves a few times a second
		return
	case !w.known:
		w.hosts, w.known = busy, true
	default:
		w.hosts += (busy - w.hosts) * (1 - math.Exp(-passed/busyFor))
	}
	w.spent, w.looked = spent, now
}

// holds takes in how many hosts the experts need: all fit on so many of the smallest.
func (w *work) holds(k plan.Known) {
	w.least = 1
	smallest := uint64(math.MaxUint64)
	for _, h := range k.Hosts {
		if h.Budget == 0 || k.Model.ExpertBytes == 0 {
			return
		}
		smallest = min(smallest, h.Budget/k.Model.ExpertBytes)
	}
	if len(k.Hosts) > 0 && smallest > 0 {
		w.least = min(int(math.Ceil(float64(len(k.Model.MoELayers)*k.Model.Experts)/float64(smallest))), mostHosts)
	}
}

// wanted is how many hosts there should be.
func (w *work) wanted() int {
	const rounding = 1e-6
	return min(max(1, w.least, int(math.Ceil(w.hosts/busyAim-rounding))), mostHosts)
}

// hostsWanted reads that while this scaler plans, and knows.
func (p *policy) hostsWanted() []telemetry.Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active || !p.work.known {
		return nil
	}
	return []telemetry.Reading{{Value: float64(p.work.wanted())}}
}
