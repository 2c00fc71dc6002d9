package pool

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each item of each call runs once, whatever others call meanwhile, also from within items, and a panic reaches its
// own caller alone.
func TestEveryItemOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(rapid.IntRange(1, 9).Draw(t, "threads"))
		defer p.Close()
		calls := rapid.SliceOfN(rapid.Custom(drawCall), 1, 80).Draw(t, "calls")
		var wg sync.WaitGroup
		found := make([]error, len(calls))
		for i := range calls {
			wg.Go(func() { found[i] = calls[i].on(p) })
		}
		wg.Wait()
		if err := errors.Join(found...); err != nil {
			t.Fatal(err)
		}
	})
}

// call is a Run or a Spare.
type call struct {
	items, inner int // inner: what each item calls for itself
	panics       int // the item that panics, or -1
	spare, rests bool
}

func drawCall(t *rapid.T) call {
	c := call{items: rapid.IntRange(0, 30).Draw(t, "items"), panics: -1, spare: rapid.Bool().Draw(t, "spare"), rests: rapid.Bool().Draw(t, "rests")}
	if rapid.IntRange(0, 3).Draw(t, "nests") == 0 {
		c.inner = rapid.IntRange(0, 5).Draw(t, "inner")
	}
	if c.items > 0 && rapid.IntRange(0, 3).Draw(t, "panics") == 0 {
		c.panics = rapid.IntRange(0, c.items-1).Draw(t, "at")
	}
	return c
}

// on makes the call twice, of which each may find what the other one left.
func (c call) on(p *Pool) error {
	for range 2 {
		if c.rests {
			time.Sleep(2 * spin)
		}
		run := p.Run
		if c.spare {
			run = p.Spare
		}
		ran, nested := make([]atomic.Int32, c.items), atomic.Int32{}
		caught := panicOf(func() {
			run(c.items, func(i int) {
				ran[i].Add(1)
				p.Run(c.inner, func(int) { nested.Add(1); runtime.Gosched() })
				if i == c.panics {
					panic("as was asked for")
				}
			})
		})
		if (caught != nil) != (c.panics >= 0) {
			return fmt.Errorf("%+v: caught %v", c, caught)
		}
		if caught != nil && p.Threads() == 1 { // which stops at once
			continue
		}
		for i := range ran {
			if n := ran[i].Load(); n > 1 || n < 1 && c.panics < 0 {
				return fmt.Errorf("%+v: item %d ran %d times", c, i, n)
			}
		}
		if n := int(nested.Load()); n != c.items*c.inner && c.panics < 0 {
			return fmt.Errorf("%+v: %d nested items ran", c, n)
		}
	}
	return nil
}

// Workers sleep when nothing comes, those that are many too, and some wake for what does.
func TestManySleep(t *testing.T) {
	p := New(130)
	defer p.Close()
	for range 3 {
		for p.Awake() > 0 {
			time.Sleep(spin)
		}
		var sum atomic.Int64
		p.Run(400, func(i int) { sum.Add(int64(i)); time.Sleep(spin) })
		if sum.Load() != 400*399/2 || p.Awake() == 0 {
			t.Fatalf("the sum is %d, and %d workers are awake", sum.Load(), p.Awake())
		}
	}
}

// A Spare holds three workers; a Run of four items that wait for each other needs three of the other four, asleep.
func TestSleepersBesideBusy(t *testing.T) {
	p := New(8)
	defer p.Close()
	for p.Awake() > 0 {
		time.Sleep(spin)
	}
	block, held := make(chan struct{}), atomic.Int32{}
	var wg sync.WaitGroup
	wg.Go(func() { p.Spare(4, func(int) { held.Add(1); <-block }) })
	for held.Load() < 4 || p.Awake() > 0 {
		time.Sleep(spin)
	}
	var met sync.WaitGroup
	met.Add(4)
	p.Run(4, func(int) { met.Done(); met.Wait() })
	close(block)
	wg.Wait()
}
