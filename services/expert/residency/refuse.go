package residency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
)

const (
	// roomEvery is how often a function looks for memory before it is refused:
	// other layers' plans, which free some, may be on their way.
	roomEvery = 50 * time.Millisecond
	// roomTries is how often it looks.
	roomTries = 4
)

// notWarm says when to try again after an error of a load.
func (k keeper) notWarm(ctx context.Context, err error) time.Duration {
	switch {
	case ctx.Err() != nil:
		return 0 // something else is wanted by now
	case errors.Is(err, device.ErrCancelled):
		return keepRetry // the host ends, and says nothing more
	case !errors.Is(err, device.ErrOutOfMemory):
		k.table.Lock()
		defer k.table.Unlock()
		return k.table.noRoom(k.f, err)
	}
	k.table.Lock()
	room, refused := k.table.outOfMemory(k.f, err)
	k.table.Unlock()
	if !refused {
		return roomEvery
	}
	k.Presence.SetBudget(max(1, uint64(room))) // its budget is not what it holds; plans are to know
	return keepRetry
}

// outOfMemory refuses a function whose load the device had no memory for, though its budget
// has room, unless another function can make some. The room is what the device holds.
func (t *table) outOfMemory(f *Function, err error) (room int64, refused bool) {
	need, room := t.needs(f, true)
	if need <= room && t.makeRoom(f, need) {
		return room, false
	}
	f.roomless++
	t.refuse(f, need, room, err)
	return room, true
}

// noRoom says when to try again after a load that failed, or that found no room.
func (t *table) noRoom(f *Function, err error) time.Duration {
	var refused *device.RefusedError
	if !errors.As(err, &refused) && !errors.Is(err, errNoRoom) {
		t.failed(f, err)
		return keepRetry
	}
	t.yield(t.memory.missing(f))
	need, room := t.needs(f, false)
	if need <= room && t.makeRoom(f, t.memory.short(need)) {
		return roomEvery
	}
	if f.roomless++; f.roomless < roomTries {
		return roomEvery
	}
	t.refuse(f, need, room, err)
	return keepRetry
}

// failed tells once of a load that does not work.
func (t *table) failed(f *Function, err error) {
	if reason := fmt.Sprintf("%.256s", err); f.state.Reason != reason {
		t.Logger.Error("function not loaded; trying again", "function", f.spec.Id, "layer", f.layer, "error", err)
		t.say(f, f.is(isWarming, reason))
		if t.Unloadable != nil {
			t.Unloadable(fmt.Errorf("layer %d, function %s: %w", f.layer, f.spec.Id, err))
		}
	}
	t.giveBack(f)
}

// refuse tells the others, and the log, of a function that does not fit.
func (t *table) refuse(f *Function, need, room int64, err error) {
	if f.state.Phase == isRefused && f.state.NeedBytes == uint64(need) && f.state.RoomBytes == uint64(room) {
		return
	}
	state := f.is(isRefused, fmt.Sprintf("%.256s", err))
	state.NeedBytes, state.RoomBytes = uint64(need), uint64(room)
	t.say(f, state)
	t.Presence.Add("functions_refused_total", 1)
	t.Logger.Error("function does not fit on this host; raise --expert-memory or add a host",
		"function", f.spec.Id, "layer", f.layer, "need_bytes", need, "room_bytes", room)
	t.giveBack(f)
}

// refuseForGood refuses a function that this host can never serve, once, and says so to the
// others.
func (k keeper) refuseForGood() {
	f, t := k.f, k.table
	t.Lock()
	defer t.Unlock()
	if f.state.Phase == isRefused {
		return
	}
	t.say(f, f.is(isRefused, fmt.Sprintf("%.256s", f.cannot)))
	t.Presence.Add("functions_refused_total", 1)
	t.Logger.Error("a function of the plan cannot be served here", "layer", f.layer, "error", f.cannot)
	t.giveBack(f)
}
