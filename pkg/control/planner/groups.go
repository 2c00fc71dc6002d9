package planner

import (
	"context"
	"maps"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// group is a function's consumer group.
type group struct {
	layer    int
	function string
}

// keepGroups lets the groups of functions that nobody is to join exist before
// the plan does: they keep what comes for them. Those that no plan has any more go
// by themselves.
func (t *tenure) keepGroups(ctx context.Context, layers []*pb.LayerPlan) error {
	wanted := map[group]bool{}
	for _, lp := range layers {
		maps.Copy(wanted, groupsKept(lp))
	}
	for g := range wanted {
		if t.kept[g] {
			continue
		}
		if err := t.Groups.EnsureGroup(ctx, g.layer, g.function, true); err != nil {
			return err
		}
		t.kept[g] = true
	}
	for g := range t.kept {
		if wanted[g] {
			continue
		}
		if err := t.Groups.EnsureGroup(ctx, g.layer, g.function, false); err != nil {
			return err
		}
		delete(t.kept, g)
	}
	return nil
}

// groupsKept are those of a layer's functions that nobody is to join.
func groupsKept(l *pb.LayerPlan) map[group]bool {
	all := map[group]bool{}
	for _, f := range l.GetFunctions() {
		if nobodyJoins(f) {
			all[group{int(l.Layer), f.Id}] = true
		}
	}
	return all
}

// nobodyJoins says whether no host is to be in a function's group.
func nobodyJoins(f *pb.Function) bool {
	for _, p := range f.Placements {
		if p.Want != pb.Want_WANT_KEPT {
			return false
		}
	}
	return true
}

// sweepAfter is how long a replica is no member before its records are cleared.
// One that comes back writes them again.
const sweepAfter = 10 * time.Second

// sweep clears what replicas have left that did not end by themselves.
func (t *tenure) sweep(ctx context.Context, now time.Time) {
	if !t.Members.Synced() {
		return
	}
	here := map[string]bool{}
	for _, m := range t.Members.Snapshot() {
		here[m.Id] = true
	}
	left := t.Records.Keys()
	maps.DeleteFunc(t.gone, func(id string, _ time.Time) bool { return len(left[id]) == 0 })
	for id, keys := range left {
		if here[id] {
			delete(t.gone, id)
		} else if since, known := t.gone[id]; !known {
			t.gone[id] = now
		} else if now.Sub(since) >= sweepAfter {
			delete(t.gone, id)
			for _, key := range keys {
				_ = t.Records.Clear(ctx, key) // what gets lost is cleared at the next look
			}
		}
	}
}
