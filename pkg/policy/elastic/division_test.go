package elastic

import (
	"math"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// dividing decides four times a second for so many seconds, while attention tells that one
// dispatch more makes a layer take so much more. It says what plans say of a message's time
// then, and how often that has changed.
func dividing(t *testing.T, core *Core, k *plan.Known, began float64, length int, each time.Duration) (call float64, changes int) {
	t.Helper()
	for i := range 4 * length {
		now, times := began+float64(i)/4, loads.NewTimes(testHash, "attention-a")
		for n := 1; n <= 8; n++ {
			times.Add(0, loads.Took{Rows: 8, Dispatches: n, Total: time.Second, Messages: each * time.Duration(n)})
		}
		sample := times.Take(loads.TimesEvery)[0]
		sample.Number = uint64(4*began) + uint64(i) + 1
		if err := core.Observe(now, sample); err != nil {
			t.Fatal(err)
		}
		d, _, err := core.Decide(now, *k)
		if err != nil {
			t.Fatal(err)
		}
		l, err := plan.Rules{MoELayers: core.model.MoELayers, Experts: core.model.Experts}.Check(d.Layers[0])
		if err != nil {
			t.Fatal(err)
		}
		if now := l.Division.GetCallSeconds(); now != call {
			call, changes = now, changes+1
		}
		k.InForce[0] = l
	}
	return call, changes
}

// divisionOf is a scaler whose gates divide rows, and what it decides on.
func divisionOf(t *testing.T, set func(*Settings)) (*Core, *plan.Known) {
	t.Helper()
	s, m := printed(), testModel(1, 4)
	s.Scaling, s.Takes = "moeless+", reads
	set(&s)
	core, err := New(s, m)
	if err != nil {
		t.Fatal(err)
	}
	return core, &plan.Known{Model: m.Model, Settings: plan.Settings{Grouping: plan.ByExpert, Replicas: 1}, Hosts: []plan.Host{{ID: "host-0", Budget: 120}}, InForce: map[int]*plan.Layer{}}
}

// Gates divide rows by the time of messages that attention tells, once it is measured, unless
// an operator has set one; what is told after that changes plans only if it is quite another.
func TestDivisionByMeasuredMessages(t *testing.T) {
	for _, tc := range []struct {
		name    string
		fixed   bool
		each    time.Duration
		want    float64
		changes int // the first plan by loads says what is assumed
	}{
		{"as assumed", false, 25 * time.Microsecond, 25e-6, 1},
		{"about as assumed", false, 32 * time.Microsecond, 25e-6, 1},
		{"dear", false, 200 * time.Microsecond, 200e-6, 2},
		{"free", false, 0, 0, 2},
		{"set", true, 200 * time.Microsecond, 25e-6, 1},
	} {
		core, k := divisionOf(t, func(s *Settings) { s.MessageFixed = tc.fixed })
		call, changes := dividing(t, core, k, 1, 60, tc.each)
		if math.Abs(call-tc.want) > 0.2*tc.want+5e-6 || changes != tc.changes {
			t.Errorf("%s: %v s a message after %d changes, want %v after %d", tc.name, call, changes, tc.want, tc.changes)
		}
	}
}

// A scaler that takes over goes on with the time of the plan in force until it has measured.
func TestDivisionTakenOver(t *testing.T) {
	first, k := divisionOf(t, func(*Settings) {})
	before, _ := dividing(t, first, k, 1, 30, 200*time.Microsecond)
	next, _ := divisionOf(t, func(*Settings) {})
	if after, _ := dividing(t, next, k, 1, 5, 300*time.Microsecond); after != before {
		t.Errorf("%v s a message, before %v", after, before)
	}
}
