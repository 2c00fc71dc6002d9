package devicetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Faults say how loads go. The zero value lets all of them pass.
type Faults struct {
	mu    sync.Mutex
	held  map[forward.ExpertID]chan struct{}
	takes map[forward.ExpertID]time.Duration
	fails map[forward.ExpertID]error
	deaf  map[forward.ExpertID]bool
	began []forward.ExpertID
	now   int
	most  int
}

// Hold makes loads of an expert wait from now on, until the returned function
// is called or the load is cancelled.
func (f *Faults) Hold(id forward.ExpertID) (let func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = map[forward.ExpertID]chan struct{}{}
	}
	wait := make(chan struct{})
	f.held[id] = wait
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.held[id] == wait {
			delete(f.held, id)
		}
		close(wait)
	})
}

// Take makes loads of an expert last so long, or until they are cancelled.
func (f *Faults) Take(id forward.ExpertID, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.takes == nil {
		f.takes = map[forward.ExpertID]time.Duration{}
	}
	f.takes[id] = d
}

// Ignore makes loads of an expert that Hold holds go on when they are cancelled.
func (f *Faults) Ignore(id forward.ExpertID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf == nil {
		f.deaf = map[forward.ExpertID]bool{}
	}
	f.deaf[id] = true
}

// Fail makes loads of an expert end with err; nil lets them pass again.
func (f *Faults) Fail(id forward.ExpertID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails == nil {
		f.fails = map[forward.ExpertID]error{}
	}
	f.fails[id] = err
}

// Began lists the loads that have begun, in order.
func (f *Faults) Began() []forward.ExpertID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.began)
}

// Most returns how many loads have run at a time at most.
func (f *Faults) Most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// Begin is what a loader calls first. Its error is the load's.
func (f *Faults) Begin(ctx context.Context, id forward.ExpertID) error {
	f.mu.Lock()
	f.began = append(f.began, id)
	f.now++
	f.most = max(f.most, f.now)
	wait, deaf, takes := f.held[id], f.deaf[id], f.takes[id]
	f.mu.Unlock()
	err := last(ctx, takes)
	if err == nil {
		err = hold(ctx, wait, deaf)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	if err == nil {
		err = f.fails[id]
	}
	return err
}

func last(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func hold(ctx context.Context, wait chan struct{}, deaf bool) error {
	switch {
	case wait == nil:
		return ctx.Err()
	case deaf:
		<-wait
		return nil
	}
	select {
	case <-wait:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
