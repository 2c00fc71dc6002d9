package residency

import (
	"cmp"
	"context"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// drainWithin bounds the end of a function's last dispatches.
const drainWithin = 5 * time.Second

// dismiss ends a function that is to be dropped: it finishes what it has, removes
// its group if nobody is to have it, and rests; or it frees experts that are not
// used here any more. If it is wanted again meanwhile, it begins anew.
func (k keeper) dismiss() {
	f, t := k.f, k.table
	t.Lock()
	receiving, wasWarm := f.receiving, f.state.Phase == isWarm
	f.receiving = nil
	if receiving != nil {
		t.say(f, &pb.FunctionState{Id: f.spec.Id, Phase: isDraining, Joined: true})
	}
	f.endWaits()
	f.warmed = make(chan struct{})
	t.Unlock()
	if receiving != nil {
		k.drain(receiving)
	}
	k.removeGroup()
	if wasWarm && k.lay() {
		return
	}
	f.release(k.Device)
	t.Lock()
	defer t.Unlock()
	if wasWarm {
		t.Metrics.Hosts.Evicted(string(cmp.Or(f.evict, expired)))
	}
	t.forget(f)
}

// lay reports whether a function that has left its group rests from now on. One that
// is wanted again meanwhile has its experts still.
func (k keeper) lay() bool {
	f, t := k.f, k.table
	t.Lock()
	defer t.Unlock()
	f.drop = false
	if f.want == nothing && !t.rests(f, time.Now()) {
		return false
	}
	f.roused = f.want == cold // it is warm
	t.warmedUp(f)
	if f.want != nothing {
		t.kick(f)
	}
	return true
}

// forget is the end of a function that has nothing any more.
func (t *table) forget(f *Function) {
	f.drop, f.roused, f.evict, f.start = false, false, stays, nil
	f.state = &pb.FunctionState{Id: f.spec.Id, Phase: isCold}
	if f.want != nothing {
		t.kick(f)
	} else if t.functions[f.spec.Id] == f {
		delete(t.functions, f.spec.Id)
	}
	t.retryRefused()
	t.announce(f.layer)
}

// vacate frees the memory of a function that the plan still has here: one that is
// wanted cold sleeps until the next rows, one that is kept waits for room.
func (k keeper) vacate() (wait time.Duration) {
	f, t := k.f, k.table
	t.Lock()
	joined := f.want == kept && f.receiving != nil
	t.Unlock()
	if joined { // though gates may still use it
		k.leave()
	}
	if !k.leaveMemory() {
		return 0
	}
	f.release(k.Device)
	t.Lock()
	defer t.Unlock()
	t.retryRefused()
	if f.want == kept {
		return keepRetry
	}
	t.kick(f) // rows may have come
	return 0
}

// leaveMemory reports whether a function still may be evicted, and then tells that it was.
func (k keeper) leaveMemory() bool {
	f, t := k.f, k.table
	t.Lock()
	defer t.Unlock()
	why := f.evict
	f.evict = stays
	state := f.is(isCold, "")
	switch {
	case f.want == cold && f.sleeps():
	case f.want == kept:
		state.Phase, state.Reason = isRefused, "its memory is needed by functions that take rows"
	default:
		return false
	}
	t.Metrics.Hosts.Evicted(string(why))
	f.roused, f.warmed = false, make(chan struct{})
	t.say(f, state)
	return true
}

// removeGroup removes a function's group if the plan has it on no host: else
// another one may be in it. Also one that the host only meant to join may be there.
//
//nolint:contextcheck,nolintlint // a group is removed, also when nobody waits for it
func (k keeper) removeGroup() {
	f := k.f
	k.table.Lock()
	planned := k.table.plans.function(f.layer, f.spec.Id) != nil
	k.table.Unlock()
	if planned || !f.grouped {
		return
	}
	f.grouped = false
	ctx, cancel := context.WithTimeout(k.ctx, drainWithin)
	defer cancel()
	if err := k.network.Remove(ctx, f); err != nil {
		k.Logger.Debug("removing a consumer group", "function", f.spec.Id, "error", err)
	}
}
