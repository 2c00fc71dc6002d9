package residency

import (
	"context"
	"fmt"
	"time"
)

// keepRetry is the pause before something that has failed is tried again.
const keepRetry = 500 * time.Millisecond

// keeper makes one function what is wanted of it. It takes the time that this takes, without
// the table's lock.
type keeper struct {
	*common
	table *table
	f     *Function
}

// run makes the function what is wanted of it, until it is, or is gone.
func (k keeper) run() {
	for {
		ctx, cancel := context.WithCancel(k.ctx)
		wait, err := k.step(ctx, cancel)
		cancel()
		if err != nil && k.ctx.Err() == nil {
			k.Logger.Debug("function not served; trying again", "function", k.f.spec.Id, "layer", k.f.layer, "error", err)
		}
		if !k.rest(wait) {
			return
		}
	}
}

// rest waits until there is something to do again; false when the keeper ends.
func (k keeper) rest(wait time.Duration) bool {
	again := wait > 0
	if again {
		select {
		case <-k.f.wake:
		case <-time.After(wait):
		case <-k.ctx.Done():
		}
	}
	k.table.Lock()
	defer k.table.Unlock()
	if !again {
		select {
		case <-k.f.wake:
			again = true
		default:
		}
	}
	k.f.running = again && k.ctx.Err() == nil
	return k.f.running
}

// step does what is wanted of the function now. A wait is when to try again.
func (k keeper) step(ctx context.Context, cancel context.CancelFunc) (wait time.Duration, err error) {
	f := k.f
	k.table.Lock()
	f.interrupt = cancel
	want, drop, evicted, loads, joined, offloaded, pinned := f.want, f.drop, f.evict != stays, f.loads(), f.receiving != nil, f.offloaded, f.pinned
	k.table.Unlock()
	switch {
	case want == nothing && drop:
		k.dismiss()
		return 0, nil
	case want == nothing:
		return 0, nil
	case f.cannot != nil:
		k.refuseForGood()
		return 0, nil
	case evicted:
		return k.vacate(), nil
	case loads:
		if err := k.load(ctx); err != nil {
			return k.notWarm(ctx, err), err
		}
	}
	if want == kept && joined && drop {
		k.leave()
	} else if want != kept && !joined {
		if err := k.join(ctx); err != nil {
			return keepRetry, err
		}
	}
	switch {
	case offloaded && pinned:
		k.pin()
	case offloaded:
		f.unpin(ctx)
	}
	return 0, nil
}

// pin has the function's experts loaded to stay, also when this step is over.
func (k keeper) pin() {
	if f := k.f; f.experts == nil {
		f.load(k.ctx, k.Device, f.priority)
	}
}

// load loads the function's experts. After an error it has none.
func (k keeper) load(ctx context.Context) error {
	if err := k.take(); err != nil {
		return err
	}
	f := k.f
	if err := f.loaded(ctx); err != nil {
		if ctx.Err() == nil {
			f.release(k.Device)
		}
		return err
	}
	f.roomless = 0
	k.table.Lock()
	defer k.table.Unlock()
	if f.want == kept || f.receiving != nil {
		k.table.warmedUp(f)
	}
	return nil
}

// take has the device begin to load the experts, if it is the function's turn.
func (k keeper) take() error {
	f, t := k.f, k.table
	t.Lock()
	defer t.Unlock()
	if f.state.Phase != isWarm && f.state.Phase != isRefused {
		t.say(f, f.is(isWarming, f.state.Reason))
	}
	if f.experts != nil {
		return nil
	}
	if err := t.reserve(f); err != nil {
		return err
	}
	f.load(k.ctx, k.Device, f.urgency())
	return nil
}

// join begins to take the function's rows.
func (k keeper) join(ctx context.Context) error {
	f, inFlight := k.f, inFlightShared
	k.table.Lock()
	if f.alone {
		inFlight = inFlightAlone
	}
	k.table.Unlock()
	f.grouped = true
	receiving, err := k.network.Join(ctx, f, inFlight)
	if err != nil {
		return fmt.Errorf("joining the group: %w", err)
	}
	k.table.Lock()
	defer k.table.Unlock()
	f.receiving = receiving
	if f.experts != nil && !f.offloaded {
		k.table.warmedUp(f)
	} else {
		k.table.say(f, f.is(isCold, ""))
	}
	return nil
}

// leave ends taking rows; the experts stay.
func (k keeper) leave() {
	k.table.Lock()
	receiving := k.f.receiving
	k.f.receiving, k.f.drop = nil, false
	k.table.warmedUp(k.f)
	k.table.Unlock()
	k.drain(receiving)
}

// drain finishes what the function has taken.
//
//nolint:contextcheck,nolintlint // what was taken is finished, also when nobody waits for it
func (k keeper) drain(receiving Group) {
	ctx, cancel := context.WithTimeout(k.ctx, drainWithin)
	defer cancel()
	if err := receiving.Drain(ctx); err != nil {
		k.Logger.Warn("function did not drain", "function", k.f.spec.Id, "error", err)
	}
}
