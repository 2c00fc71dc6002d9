package compute

import (
	"testing"
	"testing/synctest"
	"time"
)

// The time that computers were busy counts once however many were, and one that is busy for
// too long is stuck, whatever the others do.
func TestComputers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := New(nil, nil, "", nil)
		begun := time.Now()
		check := func(worked time.Duration, stuck bool) {
			t.Helper()
			if now := time.Now(); cs.Worked(now) != worked || cs.Stuck(now) != stuck {
				t.Errorf("after %v: worked %v, want %v; stuck %v", now.Sub(begun), cs.Worked(now), worked, cs.Stuck(now))
			}
		}
		check(0, false)
		first := cs.Take(time.Now())
		time.Sleep(time.Second)
		second := cs.Take(time.Now())
		time.Sleep(2 * time.Second)
		check(3*time.Second, false)
		cs.Give(second)
		if cs.Take(time.Now()) != second {
			t.Error("an idle computer is not used again")
		}
		time.Sleep(StuckAfter - 3*time.Second)
		check(StuckAfter, false)
		time.Sleep(time.Second)
		check(StuckAfter+time.Second, true)
		cs.Give(first)
		check(StuckAfter+time.Second, false)
		time.Sleep(time.Second)
		cs.Give(second)
		time.Sleep(time.Hour)
		check(StuckAfter+2*time.Second, false)
	})
}
