package plan

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/divide"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Homes are the hosts that a layer's rows go to where hosts load experts for them, by function.
// Of several hosts that serve a function it is one, always the same: so that host holds its
// experts if any does, the others need not, and who foretells experts knows whom to tell. A
// function has none if one host serves it, or if all of its hosts hold it (Held).
func Homes(l *pb.LayerPlan) map[string]string {
	all, least := hostsOf(l), leastWarm(l)
	homes := map[string]string{}
	for _, f := range l.GetFunctions() {
		on := serving(f)
		if f.GetKind() != Routed || len(f.GetExperts()) == 0 || len(on) < 2 || warmOn(f) > least {
			continue
		}
		at := make([]int, len(on))
		for i, host := range on {
			at[i], _ = slices.BinarySearch(all, host)
		}
		divide.HomeFirst(at, int(slices.Min(f.Experts)), len(all))
		homes[f.Id] = all[at[0]]
	}
	return homes
}

// Held says whether a plan gives a function more warm replicas than the least of its layer's: one
// that goes by load does so for what is wanted most, and hosts that offload hold it for as long.
func Held(l *pb.LayerPlan, f *pb.Function) bool { return warmOn(f) > leastWarm(l) }

// leastWarm is at least 1.
func leastWarm(l *pb.LayerPlan) int {
	least := 0
	for i, f := range l.GetFunctions() {
		if n := warmOn(f); i == 0 || n < least {
			least = n
		}
	}
	return max(1, least)
}

func warmOn(f *pb.Function) (n int) {
	for _, p := range f.GetPlacements() {
		if p.GetWant() == pb.Want_WANT_WARM {
			n++
		}
	}
	return n
}

// serving are the hosts that take a function's rows, by name.
func serving(f *pb.Function) (on []string) {
	for _, p := range f.GetPlacements() {
		if p.GetWant() != pb.Want_WANT_KEPT {
			on = append(on, p.GetHost())
		}
	}
	slices.Sort(on)
	return on
}

// hostsOf are the hosts that serve any function of a layer, by name.
func hostsOf(l *pb.LayerPlan) (all []string) {
	for _, f := range l.GetFunctions() {
		all = append(all, serving(f)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
