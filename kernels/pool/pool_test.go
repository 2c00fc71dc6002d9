package pool

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 5} {
		p := New(threads)
		for _, n := range []int{0, 1, 2, 3, 100} {
			seen := make([]atomic.Int32, n)
			p.Run(n, func(i int) { seen[i].Add(1) })
			for i := range seen {
				if c := seen[i].Load(); c != 1 {
					t.Errorf("%d threads: item %d of %d ran %d times", threads, i, n, c)
				}
			}
		}
		p.Close()
		p.Close()
	}
}

func TestBound(t *testing.T) {
	p := New(3)
	defer p.Close()
	var now, most atomic.Int32
	p.Run(500, func(int) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		now.Add(-1)
	})
	if most.Load() > 3 {
		t.Errorf("%d items at once", most.Load())
	}
}

// An item's panic reaches the caller of Run, whoever ran it, and nobody else.
func TestPanic(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		p := New(threads)
		for range 50 {
			if caught := panicOf(func() { p.Run(20, func(i int) { _ = []int{}[i] }) }); caught == nil {
				t.Fatalf("%d threads: no panic", threads)
			}
			if caught := panicOf(func() { p.Run(20, func(int) {}) }); caught != nil {
				t.Fatalf("%d threads: the next run got %v", threads, caught)
			}
		}
		p.Close()
	}
}

func panicOf(f func()) (caught any) {
	defer func() { caught = recover() }()
	f()
	return nil
}

// A caller makes progress while the workers and other callers are stuck.
func TestBusyWorkers(t *testing.T) {
	p := New(2)
	defer p.Close()
	block, stuck := make(chan struct{}), make(chan struct{}, 2)
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(2, func(int) { stuck <- struct{}{}; <-block }) })
	<-stuck
	<-stuck
	for range 100 {
		var sum atomic.Int64
		p.Run(10, func(i int) { sum.Add(int64(i)) })
		if sum.Load() != 45 {
			t.Fatalf("sum is %d", sum.Load())
		}
	}
	close(block)
	wg.Wait()
}

func TestManyCallers(t *testing.T) {
	p := New(4)
	defer p.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range 200 {
				var sum atomic.Int64
				p.Run(n, func(i int) { sum.Add(int64(i)) })
				if int(sum.Load()) != n*(n-1)/2 {
					t.Errorf("%d items sum to %d", n, sum.Load())
				}
			}
		})
	}
	wg.Wait()
}

func TestAfterClose(t *testing.T) {
	p := New(2)
	p.Close()
	for range 50 {
		n := 0
		p.Run(1, func(int) { n++ })
		var many atomic.Int32
		p.Run(4, func(int) { many.Add(1) })
		if n != 1 || many.Load() != 4 {
			t.Fatal("items were lost")
		}
	}
}

func TestAllocations(t *testing.T) {
	p := New(2)
	defer p.Close()
	f := func(int) {}
	if n := testing.AllocsPerRun(200, func() { p.Run(4, f) }); n > 0.5 {
		t.Errorf("%v allocations a run", n)
	}
}

func BenchmarkRun(b *testing.B) {
	p := New(2)
	defer p.Close()
	f := func(int) {}
	b.ReportAllocs()
	for b.Loop() {
		p.Run(2, f)
	}
}

// BenchmarkSpeedup reports how much faster two threads are on items of the usual size.
func BenchmarkSpeedup(b *testing.B) {
	item := func(int) {
		for start := time.Now(); time.Since(start) < 40*time.Microsecond; {
		}
	}
	p := New(2)
	defer p.Close()
	for _, n := range []int{2, 4, 16} {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			for b.Loop() {
				p.Run(n, item)
			}
			b.ReportMetric(float64(n)*40e-6*float64(b.N)/b.Elapsed().Seconds(), "speedup")
		})
		b.Run(fmt.Sprintf("rested/items=%d", n), func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				time.Sleep(time.Millisecond)
				start := time.Now()
				p.Run(n, item)
				spent += time.Since(start)
			}
			b.ReportMetric(float64(n)*40e-6*float64(b.N)/spent.Seconds(), "speedup")
		})
	}
}

// A worker is awake after work, and sleeps when none comes.
func TestAwake(t *testing.T) {
	p := New(2)
	defer p.Close()
	for p.Awake() == 0 {
		p.Run(2, func(int) {})
	}
	for p.Awake() > 0 {
		runtime.Gosched()
	}
	if New(1).Awake() > 0 {
		t.Error("a pool without workers has one that is awake")
	}
}

// Spare work is done beside other work, all of it.
func TestSpare(t *testing.T) {
	p := New(3)
	defer p.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 100 {
				var spare, run atomic.Int64
				p.Spare(n, func(i int) { spare.Add(int64(i)) })
				p.Run(n, func(i int) { run.Add(int64(i)) })
				if want := int64(n*(n-1)) / 2; spare.Load() != want || run.Load() != want {
					t.Errorf("%d items sum to %d and %d", n, spare.Load(), run.Load())
				}
			}
		})
	}
	wg.Wait()
}

// A worker that is free takes a job of Run first, however much spare work waits, and none without free items.
func TestRunsFirst(t *testing.T) {
	p := &Pool{slots: make([]slot, 64)}
	for _, tc := range []struct {
		open  [kinds]uint64
		index int
		want  int
	}{
		{[kinds]uint64{0, 0}, 0, -1},
		{[kinds]uint64{0, 1 << 5}, 3, 5},
		{[kinds]uint64{1 << 9, 1 << 5}, 4, 9},
		{[kinds]uint64{1<<9 | 1<<20, 1 << 5}, 10, 20}, // workers begin with different ones
		{[kinds]uint64{1<<9 | 1<<20, 1 << 5}, 70, 9},
		{[kinds]uint64{1 << 63, 1 << 5}, 4, 5}, // the last slot has none left
	} {
		for kind, bits := range tc.open {
			p.open[kind].Store(bits)
		}
		for i := range p.slots[:63] {
			p.slots[i].left.Store(1)
		}
		if got := p.next(tc.index); got == nil != (tc.want < 0) || got != nil && got != &p.slots[tc.want] {
			t.Errorf("%+v: %p", tc, got)
		}
	}
}

// A worker leaves spare work after an item when there is other work, and no other work.
func TestLeaves(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	for _, tc := range []struct {
		name   string
		others func() bool
		ran    int64
	}{{"spare work, and other work waits", yes, 1}, {"spare work", no, 10}, {"other work", nil, 10}} {
		s := &slot{f: func(int) {}, n: 10, kind: spare}
		s.pending.Store(s.n)
		s.left.Store(s.n)
		if last := s.drain(tc.others); s.n-s.pending.Load() != tc.ran || last != (tc.ran == s.n) {
			t.Errorf("%s: %d items ran, the last one: %v", tc.name, s.n-s.pending.Load(), last)
		}
	}
}
