package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/switchyard/switchyard/schemas"
)

// Prompts that fill all workers occupy a replica, and so does what it is about to claim.
func TestOccupied(t *testing.T) {
	b := newBench(t, 2, 8)
	is := func(want bool, when string) {
		t.Helper()
		if b.tellLine(); b.Line().Occupied() != want {
			t.Errorf("%s: occupied %v, with %d rows to read", when, !want, b.own.unread())
		}
	}
	is(false, "idle")
	b.Line().Enter()
	is(true, "claiming")
	b.Line().Entered()
	b.add(b.request("small", 15, 10))
	is(false, "little to read")
	b.add(b.request("one more", 2, 10))
	is(true, "as much as two workers take")
}

// A sequence that had its turn waits until a step has a row of it; canaries are not counted.
func TestUnstepped(t *testing.T) {
	b := newBench(t, 1, 8)
	is := func(want int, when string) {
		t.Helper()
		if b.tellLine(); b.Line().Unstepped() != want {
			t.Errorf("%s: %d wait, want %d", when, b.Line().Unstepped(), want)
		}
	}
	is(0, "idle")
	b.Line().Enter()
	is(1, "one is claimed")
	b.Line().Entered()
	b.add(b.request("a1", 4, 2))
	is(1, "it is with the scheduler")
	b.start()
	is(0, "its rows are in a step")
	canary := b.request("canary", 4, 2)
	canary.flow = schemas.CanaryFlow()
	b.add(canary)
	b.add(b.request("a3", 20, 2))
	is(1, "one more")
	b.land(0, 5, nil)
	is(1, "the first one has a token")
	b.start()
	is(0, "all have begun")
}

// A turn waits until few are in line for pages.
func TestAwaitLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := newLine(0)
		l.tell(2, 0, 0)
		for range 3 {
			l.Enter()
		}
		begun := false
		go func() { begun = l.Await(ctx, 4) }()
		synctest.Wait()
		if begun || !l.Waits() {
			t.Fatal("it begins while five are in line")
		}
		l.Entered()
		synctest.Wait()
		if !begun {
			t.Fatal("four are in line, and it does not begin")
		}
		cancel()
		if l.Await(ctx, 4) {
			t.Error("it goes on after the end")
		}
	})
}

// That fewer wait for pages lets a turn begin, and that more do does not.
func TestLineMoves(t *testing.T) {
	l := newLine(0)
	for _, step := range []struct {
		inLine int64
		want   int
	}{{2, 0}, {2, 0}, {3, 0}, {1, 1}, {0, 1}} {
		if l.tell(step.inLine, 0, 0); len(l.moved) != step.want {
			t.Errorf("%d in line: told %d times, want %d", step.inLine, len(l.moved), step.want)
		}
	}
}
