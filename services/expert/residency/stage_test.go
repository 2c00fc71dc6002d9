package residency

import (
	"context"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// actor is a host with its own network, which is the stage.
type actor struct {
	*Residency
	id    string
	fake  *devicetest.Fake
	stage *stage
	joins time.Duration
	says  map[int]*pb.HostLayer
}

func (h *actor) Join(ctx context.Context, _ *Function, _ int) (Group, error) {
	select {
	case <-time.After(h.joins):
		return h, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *actor) Drain(context.Context) error { return nil }

func (h *actor) Waiting() int { return 0 }

func (h *actor) Remove(context.Context, *Function) error { return nil }

func (h *actor) Acknowledged(_ string, layer int) uint64 {
	h.stage.mu.Lock()
	defer h.stage.mu.Unlock()
	return h.stage.routes[layer].Version
}

func (h *actor) Replicas(layer int, function string) []planstore.Replica {
	h.stage.mu.Lock()
	defer h.stage.mu.Unlock()
	return h.stage.replicas(layer, function)
}

// Announce tells what has changed.
func (h *actor) Announce(r *pb.HostLayer) {
	h.stage.mu.Lock()
	defer h.stage.mu.Unlock()
	if h.stage.hosts[h.id] == nil {
		return // it is dead
	}
	layer := int(r.Layer)
	before := h.says[layer]
	h.says[layer] = r
	for _, f := range r.Functions {
		if now := phrase(f); now != phrase(find(before, f.Id)) {
			h.stage.tellLocked("%s %s: %s", h.id, h.stage.names[f.Id], now)
		}
	}
	for _, f := range before.GetFunctions() {
		if find(r, f.Id) == nil {
			h.stage.tellLocked("%s %s: gone", h.id, h.stage.names[f.Id])
		}
	}
	h.stage.route(layer)
}

// phrase is a state in words.
func phrase(f *pb.FunctionState) string {
	if f == nil {
		return ""
	}
	phase := strings.ToLower(strings.TrimPrefix(f.Phase.String(), "FUNCTION_PHASE_"))
	if f.Joined {
		phase += ", joined"
	}
	return phase
}

func find(r *pb.HostLayer, id string) *pb.FunctionState {
	for _, f := range r.GetFunctions() {
		if f.Id == id {
			return f
		}
	}
	return nil
}
