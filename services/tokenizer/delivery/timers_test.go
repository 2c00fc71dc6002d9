package delivery

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func runTimers(t *testing.T, a *timers) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestTimersOnce(t *testing.T) {
	a := newTimers(3, 1)
	var done sync.Map
	var count atomic.Int32
	note := func(key string, after time.Duration) bool {
		return a.note(key, after, func(context.Context) { done.Store(key, count.Add(1)) })
	}
	if !note("b", 10*time.Millisecond) || !note("gone", -2*time.Hour) || !note("a", -time.Hour) { // due before b, however long this takes
		t.Fatal("not noted")
	}
	if note("a", 0) || note("d", 0) {
		t.Error("noted twice, or beyond the limit")
	}
	a.forget("gone")
	a.forget("never")
	runTimers(t, a)
	for stored := false; !stored; _, stored = done.Load("b") {
		time.Sleep(time.Millisecond)
	}
	first, _ := done.Load("a")
	second, _ := done.Load("b")
	if first != int32(1) || second != int32(2) || count.Load() != 2 {
		t.Errorf("a was number %v, b number %v of %d", first, second, count.Load())
	}
	if !note("a", 0) {
		t.Error("what was done cannot be noted again")
	}
}

func TestTimersAtOnce(t *testing.T) {
	a := newTimers(1000, 4)
	runTimers(t, a)
	var under, most, count atomic.Int32
	for i := range 200 {
		a.note(fmt.Sprint(i), 0, func(context.Context) {
			most.Store(max(most.Load(), under.Add(1)))
			time.Sleep(100 * time.Microsecond)
			under.Add(-1)
			count.Add(1)
		})
	}
	for count.Load() < 200 {
		time.Sleep(time.Millisecond)
	}
	if most.Load() > 4 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestRecently(t *testing.T) {
	r, now := newRecently(4, time.Minute), time.Now()
	at := now.Add
	r.add("a", at(0))
	r.add("b", at(50*time.Second))
	for _, c := range []struct {
		name  string
		after time.Duration
		want  bool
	}{
		{"a", 59 * time.Second, true}, {"b", 61 * time.Second, true}, {"a", 90 * time.Second, true}, {"never", 90 * time.Second, false},
		{"a", 3 * time.Minute, false}, {"b", 3 * time.Minute, false},
	} {
		if r.has(c.name, at(c.after)) != c.want {
			t.Errorf("%s after %v: not %v", c.name, c.after, c.want)
		}
	}
	for i := range 100 {
		r.add(fmt.Sprint(i), at(4*time.Minute))
	}
	if len(r.young)+len(r.old) > 4 || !r.has("99", at(4*time.Minute)) || r.has("95", at(4*time.Minute)) {
		t.Errorf("%d remembered", len(r.young)+len(r.old))
	}
	if r.has("99", at(time.Hour)) {
		t.Error("remembered for an hour")
	}
}
