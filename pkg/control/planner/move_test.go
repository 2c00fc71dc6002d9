package planner

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// transfers are those of layers, by their numbers.
func transfers(layers []*pb.LayerPlan) map[uint32]pb.TransferMode {
	out := map[uint32]pb.TransferMode{}
	for _, lp := range layers {
		out[lp.Layer] = lp.Functions[0].Transfer
	}
	return out
}

// Settings count in layers that a policy has not planned anew, too; without a store rows travel in
// messages until there is one.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := candidate{w, "a"}
		one := &tenure{Planner: New(Settings{Groups: c, Plans: c, Logger: slog.New(slog.DiscardHandler)})}
		var all []*pb.LayerPlan
		for _, l := range testModel.MoELayers {
			all = append(all, &pb.LayerPlan{Layer: uint32(l), Functions: []*pb.Function{plan.Function(l, []uint32{0, 1, 2, 3}, "host-a")}})
		}
		state, _, err := c.Write(t.Context(), planstore.State{}, all, planstore.Writer{Epoch: 1})
		if err != nil {
			t.Fatal(err)
		}
		move := func(s plan.Settings) map[uint32]pb.TransferMode {
			return transfers(one.move(t.Context(), all[:1], state, s))
		}
		if got := move(plan.DefaultSettings()); len(got) != 1 || got[1] != 0 {
			t.Errorf("without a mode: %v", got)
		}
		stored := plan.Settings{Transfer: plan.Pipelined, Minibatch: 7}
		if got := move(stored); len(got) != 2 || got[1] != plan.Pipelined || got[3] != plan.Pipelined {
			t.Errorf("pipelined: %v", got)
		}
		w.mu.Lock()
		w.faults["objects"] = errors.New("denied")
		w.mu.Unlock()
		for range 2 {
			w.take()
			if got := move(stored); got[1] != plan.Direct || got[3] != plan.Direct {
				t.Errorf("without a store: %v", got)
			}
		}
		if asked := w.take(); len(asked) > 0 {
			t.Errorf("asked again at once: %v", asked)
		}
		w.mu.Lock()
		clear(w.faults)
		w.mu.Unlock()
		time.Sleep(ensureAgain)
		if got := move(stored); got[1] != plan.Pipelined {
			t.Errorf("with a store again: %v", got)
		}
	})
}
