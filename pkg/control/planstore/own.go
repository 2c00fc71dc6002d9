package planstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// mostLayers are followed one by one; with more of them all are.
	mostLayers = 16
	// gatherLayers is how long new layers gather before they are followed.
	gatherLayers = 20 * time.Millisecond
)

// FollowOwn is Follow of what a host needs: the gates, and the layers that own has keys of. If each
// of a thousand hosts followed all layers, each state would be a thousand messages. Once
// Keys is called, it follows everything.
func (v *FunctionView) FollowOwn(ctx context.Context, own *Announcer) {
	for ctx.Err() == nil {
		v.forget()
		own.lost()
		for v.readOwn(ctx, own) {
		}
		_ = pause.For(ctx, retryFunctionsEvery) // the loop sees the end of ctx
	}
}

// readOwn follows what is needed until more is, which it says, or read ends by itself.
func (v *FunctionView) readOwn(parent context.Context, own *Announcer) (more bool) {
	layers, grown := own.layers()
	keys := v.needed(layers)
	if keys == nil {
		grown = nil // nothing is left out
	} else {
		v.retain(layers)
	}
	ctx, end := context.WithCancel(parent)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer end()
		v.awaitMore(ctx, keys != nil, grown)
	})
	err := v.read(ctx, own, func(FunctionChange) {}, keys...)
	more = ctx.Err() != nil && parent.Err() == nil && !errors.Is(err, bus.ErrReplaced)
	end()
	waiting.Wait()
	return more
}

// needed are the patterns of a host's keys, nil for all.
func (v *FunctionView) needed(layers []int) []string {
	select {
	case <-v.whole:
		return nil
	default:
	}
	if len(layers) > mostLayers {
		return nil
	}
	keys := []string{GateKey("*")}
	for _, layer := range layers {
		keys = append(keys, HostKey(layer, "*"))
	}
	return keys
}

// awaitMore returns when more keys are needed than are followed, or ctx ends.
func (v *FunctionView) awaitMore(ctx context.Context, partly bool, grown <-chan struct{}) {
	whole := v.whole
	if !partly {
		whole = nil
	}
	select {
	case <-grown:
		_ = pause.For(ctx, gatherLayers) // the caller sees the end of ctx
	case <-whole:
	case <-ctx.Done():
	}
}

// retain forgets the other layers: nobody tells the view when their keys go.
func (v *FunctionView) retain(layers []int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	other := func(layer int) bool { return layer != theGates && !slices.Contains(layers, layer) }
	maps.DeleteFunc(v.hosts, func(layer int, _ map[string]*pb.HostLayer) bool { return other(layer) })
	maps.DeleteFunc(v.index, func(layer int, _ map[string][]Replica) bool { return other(layer) })
	maps.DeleteFunc(v.full, func(layer int, _ bool) bool { return other(layer) })
}
