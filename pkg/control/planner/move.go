package planner

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// ensureWithin bounds the wait for a store that others are to make, and ensureAgain is how long it
	// is not asked for again: plans do not wait for it.
	ensureWithin, ensureAgain = 2 * time.Second, 30 * time.Second
)

// objects is what a tenure knows of the store of rows on their way.
type objects struct {
	failed time.Time // when it could not be had; zero: it could
	said   pause.ErrorLog
}

// inForce is the plan in force as policies see it: without what settings say of transfers.
func inForce(state planstore.State, s plan.Settings) map[int]*plan.Layer {
	layers := state.Layers()
	if s.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		for l, p := range layers {
			layers[l] = p.Unmoved()
		}
	}
	return layers
}

// move has rows travel as settings say, in layers that a policy has planned and in those that stay as
// they are. Where there is no store for objects rows travel in messages, and the log says why.
func (t *tenure) move(ctx context.Context, planned []*pb.LayerPlan, in planstore.State, s plan.Settings) []*pb.LayerPlan {
	all := slices.Clone(planned)
	if s.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		all = append(all, others(planned, in)...)
	}
	if all = plan.Moved(all, s); plan.Stores(all) && !t.stores(ctx) {
		return plan.Moved(all, plan.Settings{Transfer: plan.Direct})
	}
	return all
}

// others are the layers of the plan in force that are not planned anew, in their order.
func others(planned []*pb.LayerPlan, in planstore.State) (all []*pb.LayerPlan) {
	layers := in.Layers()
	for _, lp := range planned {
		delete(layers, int(lp.GetLayer()))
	}
	for _, l := range slices.Sorted(maps.Keys(layers)) {
		all = append(all, layers[l].LayerPlan)
	}
	return all
}

// stores says whether there is a store of rows, and has it made.
func (t *tenure) stores(ctx context.Context) bool {
	if !t.store.failed.IsZero() && time.Since(t.store.failed) < ensureAgain {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, ensureWithin)
	defer cancel()
	err := t.Groups.EnsureObjects(ctx)
	if err == nil {
		t.store = objects{}
		return true
	}
	t.store.failed = time.Now()
	t.store.said.Error(t.Logger, "rows travel in messages: there is no store for their objects; its users need the rights of `switchyard auth init --objects`, and `switchyard setup --objects` makes it", err)
	return false
}
