package planstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Replica is a function on a host.
type Replica struct {
	Host   string
	Phase  pb.FunctionPhase
	Joined bool
}

// Warm reports whether it computes what comes to the function.
func (r Replica) Warm() bool { return r.Joined && r.Phase == pb.FunctionPhase_FUNCTION_PHASE_WARM }

// Serves reports whether what comes to the function is computed there, at once or
// when it is loaded.
func (r Replica) Serves() bool {
	return r.Warm() || r.Joined && r.Phase == pb.FunctionPhase_FUNCTION_PHASE_COLD
}

// FunctionView is what the bucket holds. It knows nothing of who is alive.
type FunctionView struct {
	s FunctionSettings

	b *bus.Bucket

	mu    sync.RWMutex
	hosts map[int]map[string]*pb.HostLayer // by layer and host
	index map[int]map[string][]Replica     // by layer and function
	gates map[string]*pb.GateLayers
	// full are the layers, and theGates, of which records did not fit; room says
	// that there is room for some by now.
	full map[int]bool
	room bool

	wholly sync.Once
	whole  chan struct{} // closed when all keys are asked for
}

// theGates stands for the gates beside the layers.
const theGates = -1

// NewFunctionView returns a view that knows nothing yet. kv is from bus.EnsureBucket.
func NewFunctionView(kv jetstream.KeyValue, s FunctionSettings) (*FunctionView, error) {
	b, err := bus.AsBucket(kv)
	if err != nil {
		return nil, err
	}
	v := &FunctionView{s: s, b: b, whole: make(chan struct{})}
	v.forget()
	return v, nil
}

// FunctionChange is what has changed: a layer's hosts, or a gate.
type FunctionChange struct {
	Layer int
	Gate  string // a layer has changed if it is empty
}

// retryFunctionsEvery is the pause before a watch that has ended begins again.
const retryFunctionsEvery = 300 * time.Millisecond

// Follow keeps the view up until ctx ends, and calls changed after each change.
// own, if not nil, gets to see all keys that lie in the bucket: it mends its own.
func (v *FunctionView) Follow(ctx context.Context, own *Announcer, changed func(FunctionChange)) {
	for ctx.Err() == nil {
		v.forget()
		own.lost()
		_ = v.read(ctx, own, changed)
		_ = pause.For(ctx, retryFunctionsEvery) // the loop sees the end of ctx
	}
}

// read follows the bucket, or some of its keys, until it is made anew, which bus.ErrReplaced
// says, or is to be read again because there is room for what did not fit, or ctx ends.
func (v *FunctionView) read(ctx context.Context, own *Announcer, changed func(FunctionChange), keys ...string) error {
	ctx, again := context.WithCancel(ctx)
	defer again()
	return v.b.Follow(ctx, func(key string, body []byte, revision uint64) {
		own.saw(key, body, revision)
		c, err := v.put(key, body)
		switch {
		case err == nil:
			changed(c)
		case v.s.Illegal != nil:
			v.s.Illegal(err)
		}
		if v.hasRoom() {
			again()
		}
	}, keys...)
}

func (v *FunctionView) hasRoom() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.room
}

func (v *FunctionView) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.full, v.room = map[int]bool{}, false
	v.hosts, v.index, v.gates = map[int]map[string]*pb.HostLayer{}, map[int]map[string][]Replica{}, map[string]*pb.GateLayers{}
}

// put takes one write in. What is no legal record changes nothing: what its
// replica said before counts.
func (v *FunctionView) put(key string, body []byte) (FunctionChange, error) {
	if strings.HasPrefix(key, gatePrefix) {
		return v.putGate(key, body)
	}
	if len(body) == 0 {
		return v.removeHost(key)
	}
	r, err := v.s.DecodeHost(key, body)
	if err != nil {
		return FunctionChange{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	layer := int(r.Layer)
	of := v.hosts[layer]
	if of == nil {
		of = map[string]*pb.HostLayer{}
		v.hosts[layer] = of
	}
	if of[r.Host] == nil && len(of) >= maxReplicas {
		v.full[layer] = true
		return FunctionChange{}, fmt.Errorf("%w at key %.80q: there are %d hosts in the layer already", ErrIllegalFunctions, key, len(of))
	}
	v.unindex(layer, of[r.Host])
	of[r.Host] = r
	v.enter(layer, r)
	return FunctionChange{Layer: layer}, nil
}

func (v *FunctionView) removeHost(key string) (FunctionChange, error) {
	layer, host, err := parseHostKey(key)
	if err != nil {
		return FunctionChange{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unindex(layer, v.hosts[layer][host])
	v.room = v.room || v.full[layer] && v.hosts[layer][host] != nil
	delete(v.hosts[layer], host)
	return FunctionChange{Layer: layer}, nil
}

func (v *FunctionView) putGate(key string, body []byte) (FunctionChange, error) {
	gate := strings.TrimPrefix(key, gatePrefix)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(body) == 0 {
		v.room = v.room || v.full[theGates] && v.gates[gate] != nil
		delete(v.gates, gate)
		return FunctionChange{Gate: gate}, nil
	}
	r, err := v.s.DecodeGate(key, body)
	if err != nil {
		return FunctionChange{}, err
	}
	if v.gates[gate] == nil && len(v.gates) >= maxReplicas {
		v.full[theGates] = true
		return FunctionChange{}, fmt.Errorf("%w at key %.80q: there are %d gates already", ErrIllegalFunctions, key, len(v.gates))
	}
	v.gates[gate] = r
	return FunctionChange{Gate: gate}, nil
}

// unindex takes a host's functions out of the index; v.mu is held. Readers keep
// the slices that they have got.
func (v *FunctionView) unindex(layer int, r *pb.HostLayer) {
	for _, f := range r.GetFunctions() {
		kept := make([]Replica, 0, len(v.index[layer][f.Id]))
		for _, one := range v.index[layer][f.Id] {
			if one.Host != r.Host {
				kept = append(kept, one)
			}
		}
		if len(kept) == 0 {
			delete(v.index[layer], f.Id)
			continue
		}
		v.index[layer][f.Id] = kept
	}
}

func (v *FunctionView) enter(layer int, r *pb.HostLayer) {
	of := v.index[layer]
	if of == nil {
		of = map[string][]Replica{}
		v.index[layer] = of
	}
	for _, f := range r.Functions {
		of[f.Id] = append(of[f.Id][:len(of[f.Id]):len(of[f.Id])], Replica{r.Host, f.Phase, f.Joined})
	}
}

// Replicas returns the hosts that have said something of a function, in no order.
func (v *FunctionView) Replicas(layer int, function string) []Replica {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.index[layer][function]
}

// Host returns what a host has said of a layer, nil for nothing.
func (v *FunctionView) Host(layer int, host string) *pb.HostLayer {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.hosts[layer][host]
}

// Refused calls each with the functions that hosts have no room for, in no order. It must not
// ask the view.
func (v *FunctionView) Refused(each func(layer int, host, function string)) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for layer, of := range v.hosts {
		for host, r := range of {
			for _, f := range r.Functions {
				if f.Phase == pb.FunctionPhase_FUNCTION_PHASE_REFUSED {
					each(layer, host, f.Id)
				}
			}
		}
	}
}

// Acknowledged returns the plan of a layer that a gate has said that it uses, 0 for none.
func (v *FunctionView) Acknowledged(gate string, layer int) uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.gates[gate].GetVersions()[uint32(layer)]
}

// UsedBy reports whether there are gates and all of them use a version of a layer's plan,
// or a later one.
func (v *FunctionView) UsedBy(gates []*pb.Member, layer int, version uint64) bool {
	for _, g := range gates {
		if v.Acknowledged(g.Id, layer) < version {
			return false
		}
	}
	return len(gates) > 0
}

// Clear removes a key of a replica that is gone, and does not wait for it.
func (v *FunctionView) Clear(ctx context.Context, key string) error { return v.b.Clear(ctx, key) }

// Keys lists the keys of each replica that the bucket has some of, as far as the view knows.
// What is left out by FollowOwn is followed from then on.
func (v *FunctionView) Keys() map[string][]string {
	v.wholly.Do(func() { close(v.whole) })
	v.mu.RLock()
	defer v.mu.RUnlock()
	keys := map[string][]string{}
	for layer, of := range v.hosts {
		for host := range maps.Keys(of) {
			keys[host] = append(keys[host], HostKey(layer, host))
		}
	}
	for gate := range v.gates {
		keys[gate] = append(keys[gate], GateKey(gate))
	}
	return keys
}

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

// needed returns the patterns of a host's keys, nil for all.
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
