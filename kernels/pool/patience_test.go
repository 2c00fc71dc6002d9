package pool

import (
	"testing"
	"time"
)

// A worker looks long for the next part of the only step, seldom where that found nothing, and hardly ever where other
// processes want the processor.
func TestPatience(t *testing.T) {
	type look struct {
		step   bool
		took   time.Duration
		found  bool
		shared bool
	}
	late, soon, vain := look{true, spin + 1, true, false}, look{true, 1, true, false}, look{step: true, took: patient}
	for _, tc := range []struct {
		name  string
		looks []look
		short int // looks that are short from then on, with a step
	}{
		{"at first", nil, 0},
		{"work that comes late", []look{late, late, late}, 0},
		{"work that never comes", []look{vain}, 1},
		{"again", []look{vain, soon, vain}, 3},
		{"work that came late between", []look{vain, soon, late, vain}, 1},
		{"work that came soon says nothing", []look{vain, soon, soon, vain}, 3},
		{"no step, no long look", []look{{took: spin}, {took: spin}}, 0},
		{"a processor that others use", []look{{true, spin, true, true}}, 1 << mostStreak},
	} {
		var p patience
		for _, l := range tc.looks {
			p.learn(p.limit(l.step), l.took, l.found, l.shared)
		}
		short := 0
		for ; p.limit(true) == spin; short++ {
			if short > 1<<mostStreak {
				t.Fatalf("%s: no look is long any more", tc.name)
			}
		}
		if short != tc.short {
			t.Errorf("%s: %d looks are short, want %d", tc.name, short, tc.short)
		}
		if p.limit(false) != spin {
			t.Errorf("%s: a long look without a step", tc.name)
		}
	}
}

// A pool that nobody has counts no steps, and others count those under way.
func TestSteps(t *testing.T) {
	var none *Pool
	none.BeginStep()
	none.EndStep()
	p := New(1)
	p.BeginStep()
	p.BeginStep()
	if p.EndStep(); p.Steps() != 1 {
		t.Errorf("%d steps", p.Steps())
	}
}

// A worker's look is a long one while there is one step, not while there is none or several. A closed pool's look ends at
// once, and counts as one that found nothing.
func TestLongLooks(t *testing.T) {
	for steps, long := range []bool{false, true, false, false} {
		p := &Pool{}
		p.closed.Store(true)
		for range steps {
			p.BeginStep()
		}
		w := worker{Pool: p}
		w.find()
		if got := w.patience.streak == 1; got != long {
			t.Errorf("%d steps: a long look: %v", steps, got)
		}
	}
}
