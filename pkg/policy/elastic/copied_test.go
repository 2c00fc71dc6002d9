package elastic

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// looked is a round over one layer of four experts on four hosts, two of them idle, whose last steps have
// so many rows of the experts.
func looked(t *testing.T, rows ...uint32) (*round, *work, layout) {
	t.Helper()
	core, k := divisionOf(t, func(*Settings) {})
	k.Hosts = nil
	for h := range 4 {
		k.Hosts = append(k.Hosts, plan.Host{ID: fmt.Sprintf("host-%d", h), Budget: 120})
	}
	r := core.round(1, *k)
	w := r.layers[0]
	for range 2 * replayLeast {
		w.last = append(w.last, step{when: 1, expert: []uint32{0, 1, 2, 3}, count: rows})
	}
	w.rate, w.scale = 10, 1
	for _, n := range rows {
		w.loads = append(w.loads, float64(n))
	}
	l := make(layout, 4)
	for e := range l {
		l.put(e, e/2, warm)
	}
	return r, w, l
}

// Two hosts are as busy as one another in every step: a copy off one of them saves nothing, copies off both do.
func TestCopiesAhead(t *testing.T) {
	for rows, want := range map[uint32]int{1000: 2, 1: 0} {
		r, w, l := looked(t, rows, rows, rows, rows)
		got := r.copied(w, l.clone(), ask{from: l, want: l.counts(), loads: w.loads, spare: 2})
		if n := extra(got.counts()); n != want {
			t.Errorf("%d copies with %d rows of each expert, want %d: %v", n, rows, want, got)
		}
	}
}

// Replicas that a decision anew would not have stay as long as they save what they are worth.
func TestRetain(t *testing.T) {
	for rows, stays := range map[uint32]bool{1000: true, 1: false} {
		r, w, l := looked(t, rows, 1, 1, 1)
		r.c.s.Worth = 0.01
		w.stay = l.counts()
		l.put(0, 2, warm)
		l.put(0, 3, warm)
		w.old, w.next = l, l.clone()
		r.retain(w)
		if n := extra(w.stay); n != map[bool]int{true: 2}[stays] {
			t.Errorf("%d copies stay with %d rows of their expert", n, rows)
		}
	}
}

// An expert's replicas turn once a minute, or when the layer has half or twice as many rows.
func TestMayTurn(t *testing.T) {
	for _, tc := range []struct {
		name      string
		now, rows float64
		up, may   bool
	}{
		{"on", 110, 50, true, true}, {"back", 110, 50, false, false}, {"back after a minute", 160, 50, false, true},
		{"back with twice the rows", 110, 100, false, true}, {"back with half of them", 110, 25, false, true},
	} {
		w := &work{layer: &layer{turns: []turn{{up: true, reversed: 100, rows: 50}}}, heard: heard{loads: []float64{tc.rows}}}
		if got := w.mayTurn(tc.now, 0, tc.up); got != tc.may {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
