package gate

import (
	"slices"
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// homing sends a function's rows to one of its hosts by name, its home (plan.Homes), where hosts
// load experts for their rows: with each that got some, one more would have to hold the experts.
type homing struct {
	offloads atomic.Pointer[map[string]bool] // hosts that do; nil: none
	layers   map[uint32]*homed
}

// homed is where rows of a layer's functions go, by the routes in use.
type homed struct {
	routes *plan.Routes
	hosts  *map[string]bool
	to     []ways // of each target; without parts: it has no home
}

func newHoming() *homing { return &homing{layers: map[uint32]*homed{}} }

// members takes in which hosts there are.
func (h *homing) members(all []*pb.Member) {
	hosts := map[string]bool{}
	for _, m := range members.OfService(all, "expert") {
		if m.Stats[members.Offloads] > 0 {
			hosts[m.Id] = true
		}
	}
	if len(hosts) == 0 {
		h.offloads.Store(nil)
		return
	}
	h.offloads.Store(&hosts)
}

// ways says how each target's rows go to its hosts: home, or as others says where it has none,
// where that may hang or is slow, and where rows were lost before.
func (h *homing) ways(a *addresses, to *plan.Routes, others func(int) ways) func(int) ways {
	hosts := h.offloads.Load()
	if hosts == nil || !a.steady || a.key.Attempt > 0 {
		return others
	}
	at := h.of(a.key.Layer, to, hosts)
	return func(f int) ways {
		if home := at.to[f]; home.parts > 0 && !a.doubtful(home.hosts[0]) {
			return home
		}
		return others(f)
	}
}

// of looks at a layer's routes once.
func (h *homing) of(layer uint32, to *plan.Routes, hosts *map[string]bool) *homed {
	if is := h.layers[layer]; is != nil && is.routes == to && is.hosts == hosts {
		return is
	}
	is := &homed{to, hosts, make([]ways, len(to.Targets))}
	homes := plan.Homes(to.Plan)
	for f, t := range to.Targets {
		home := homes[t.Id]
		if slices.Contains(t.Hosts, home) && slices.ContainsFunc(t.Hosts, func(host string) bool { return (*hosts)[host] }) {
			is.to[f] = ways{parts: 1, hosts: []string{home}}
		}
	}
	h.layers[layer] = is
	return is
}
