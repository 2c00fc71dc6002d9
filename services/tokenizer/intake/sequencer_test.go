package intake

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSequencer(t *testing.T) {
	line := newSequencer()
	a1, b, a2, none := line.enter("t"), line.enter("t"), line.enter("t"), line.enter("t")
	ctx := context.Background()
	var done atomic.Bool
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := a2.await(ctx, "a"); err != nil || !done.Load() {
			t.Errorf("the second came before the first was done: %v", err)
		}
		a2.leave()
	})
	waiting.Go(func() { none.leave() }) // never knew its request
	waiting.Go(func() {
		if err := b.await(ctx, "b"); err != nil {
			t.Error(err)
		}
		b.leave()
	})
	if err := a1.await(ctx, "a"); err != nil {
		t.Error(err)
	}
	<-b.done // another request is not held up
	done.Store(true)
	a1.leave()
	waiting.Wait()
	if len(line.last) != 0 {
		t.Errorf("%d requests are left", len(line.last))
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	c1, c2 := line.enter("t"), line.enter("t")
	_ = c1.await(ctx, "c")
	if err := c2.await(ended, "c"); err == nil {
		t.Error("waited beyond its context")
	}
}

// A turn whose context ends waits for nobody, not for those either of which nobody knows
// yet what they are about; those behind it keep their place.
func TestPlacesEnd(t *testing.T) {
	line := newSequencer()
	first, second, third, last := line.enter("t"), line.enter("t"), line.enter("t"), line.enter("t")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.await(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	second.leave()
	if err := first.await(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := third.await(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("the third came before the first was done: %v", err)
	}
	third.leave()
	first.leave()
	if err := last.await(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	last.leave()
	if len(line.last)+len(line.lines) != 0 {
		t.Errorf("%d requests are left, and %d lines", len(line.last), len(line.lines))
	}
}

// A tenant's prompt that takes long to read holds no other tenant's up.
func TestPlacesOfTenants(t *testing.T) {
	line := newSequencer()
	slow, behind, other := line.enter("slow"), line.enter("slow"), line.enter("other")
	if err := other.await(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := behind.await(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("the tenant's own second came before its first was known: %v", err)
	}
	for _, n := range []*place{other, behind, slow} {
		n.leave()
	}
	if len(line.last)+len(line.lines) != 0 {
		t.Errorf("%d requests are left, and %d lines", len(line.last), len(line.lines))
	}
}
