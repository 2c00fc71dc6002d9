package planstore

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// retryEvery is the pause before a watch that has ended begins again.
const retryEvery = 300 * time.Millisecond

// Follow calls got with what lies at a layer's key, and with each change of it,
// until ctx ends. A value that is no legal plan, or whose version does not go up,
// comes with its error: the plan before it stays in use, and the planner mends
// it. When the bucket was made anew, versions begin again.
func (s *Store) Follow(ctx context.Context, got func(Value)) error {
	return s.follow(ctx, got, func() {})
}

// FollowInto keeps a view up until ctx ends.
func (s *Store) FollowInto(ctx context.Context, v *View) error {
	return s.follow(ctx, v.Put, v.Forget)
}

func (s *Store) follow(ctx context.Context, got func(Value), anew func()) error {
	b, err := bus.AsBucket(s.kv)
	if err != nil {
		return err
	}
	f := follower{s: s, layers: map[string]int{}, got: got}
	for _, l := range s.s.MoELayers {
		f.layers[key(l)] = l
	}
	for again := false; ctx.Err() == nil; again = true {
		if again {
			anew()
		}
		f.used = map[int]*plan.Layer{}
		_ = b.Follow(ctx, f.take)      // ErrReplaced, or ctx's end; else it goes on by itself
		_ = pause.For(ctx, retryEvery) // the loop sees the end of ctx
	}
	return nil
}

type follower struct {
	s      *Store
	layers map[string]int
	used   map[int]*plan.Layer // the last legal plan of each layer
	got    func(Value)
}

func (f *follower) take(key string, body []byte, revision uint64) {
	layer, ok := f.layers[key]
	if !ok {
		return // settings, or nobody's
	}
	if len(body) == 0 {
		f.got(Value{Layer: layer, Revision: revision})
		return
	}
	v := f.s.value(layer, body, revision)
	if used := f.used[layer]; v.Plan != nil && used != nil && v.Plan.Version <= used.Version && v.Plan.WriterEpoch <= used.WriterEpoch {
		v.Err = fmt.Errorf("%w at key %d: its version went from %d to %d", ErrIllegal, layer, used.Version, v.Plan.Version)
		v.Plan = nil
	}
	if v.Plan != nil {
		f.used[layer] = v.Plan
	}
	if v.Err != nil && f.s.s.Illegal != nil {
		f.s.s.Illegal(v.Err)
	}
	f.got(v)
}

// View is the newest state that a follower has seen, or its owner has written.
type View struct {
	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced at each change
}

// NewView returns a view that knows nothing yet.
func NewView() *View { return &View{state: State{}, changed: make(chan struct{})} }

// Put takes a value in, unless it is older than the one that is known. It is what
// Follow calls.
func (v *View) Put(value Value) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if there, ok := v.state[value.Layer]; ok && value.Revision <= there.Revision {
		return
	}
	v.state = maps.Clone(v.state)
	v.state[value.Layer] = value
	v.notify()
}

// notify wakes who waits; v.mu is held.
func (v *View) notify() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// Forget drops what is known: the bucket was made anew.
func (v *View) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state = State{}
	v.notify()
}

// State returns the newest state.
func (v *View) State() State {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state
}

// Changed is closed at the next change. Get it before the State that is to be renewed.
func (v *View) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}
