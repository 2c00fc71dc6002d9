package residency

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// A copy that was fetched ahead yields to a miss, and to a prefetch when its step has passed.
func TestAwaited(t *testing.T) {
	o, err := NewOutlook(3, 2, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	order := FMoE{o}
	idle, miss, hint := &Item{Unit: unit.Expert(2, 0)}, &Item{Unit: unit.Expert(1, 0), Urgency: Demanded}, &Item{Unit: unit.Expert(1, 1)}
	o.At(0, 0)
	o.Await(idle.Unit)
	if !order.Yields(idle, miss) || order.Yields(idle, hint) {
		t.Error("it is to yield to the miss alone")
	}
	o.At(0, 2)
	if !order.Yields(idle, hint) {
		t.Error("it is still awaited")
	}
}

func TestOutlookRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		layers, experts, topK int
		ageing                float64
	}{"layers": {0, 1, 1, 1}, "experts": {1, 0, 1, 1}, "top-k": {1, 2, 3, 1}, "ageing": {1, 2, 1, 0}, "growing": {1, 2, 1, 1.1}} {
		if _, err := NewOutlook(tc.layers, tc.experts, tc.topK, tc.ageing); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What does not belong to the model changes nothing, and ageing halves what was.
func TestOutlookEdges(t *testing.T) {
	o, err := NewOutlook(2, 2, 1, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	stranger := unit.Unit{Layer: 0, Kind: unit.United, Index: 0}
	for _, x := range []unit.Unit{stranger, unit.Expert(2, 0), unit.Expert(0, 2), unit.Expert(-1, 0)} {
		o.Visit(x)
		o.Await(x)
		if _, ok := o.Chance(x); ok || o.Awaited(x) || o.Frequency(x) != 1 || o.Rate(x) != 0.5 || o.PerUse(x) != 4 {
			t.Errorf("%v is known", x)
		}
	}
	o.Tell(1, 5, []float32{1, 0})
	o.Tell(1, 0, []float32{1})
	if _, ok := o.Chance(unit.Expert(0, 0)); ok {
		t.Error("a row that does not fit counts")
	}
	o.Step()
	o.Visit(unit.Expert(0, 0))
	for range 100 { // beyond the largest weight
		o.Step()
	}
	o.Visit(unit.Expert(1, 0))
	o.Step()
	if f := o.Frequency(unit.Expert(1, 0)); f != 1.5 {
		t.Errorf("a visit of the step before counts %v", f-1)
	}
	if f := o.Frequency(unit.Expert(0, 0)); f < 1 || f > 1.001 {
		t.Errorf("an old visit counts %v", f-1)
	}
	if o.Over(3); o.Distance(1) != 2 {
		t.Errorf("with no step the second layer is %d ahead", o.Distance(1))
	}
}

// What must never be never is, whatever an outlook says and however often that changes: no
// more bytes than the budget, and nothing that somebody refers to goes.
func TestAnyOutlook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, err := NewOutlook(2, units, 2, 0.9)
		if err != nil {
			t.Fatal(err)
		}
		order := rapid.SampledFrom(named).Draw(t, "order")
		p := newPlayer(Settings{Budget: rapid.Int64Range(0, 12).Draw(t, "budget"), Loads: rapid.IntRange(1, 3).Draw(t, "loads"), Order: order.of(o)})
		events := random(rapid.Uint64().Draw(t, "seed"), 600)
		for i := 0; i+2 < len(events); i += 3 {
			change(o, events[i+2])
			p.m.Rerank()
			p.play(events[i], events[i+1])
			if err := p.do(); err != nil {
				t.Fatalf("%s, event %d: %v", order.name, i/3, err)
			}
		}
		if err := p.settle(); err != nil {
			t.Fatalf("%s: %v", order.name, err)
		}
	})
}

// change tells an outlook something.
func change(o *Outlook, what byte) {
	n := int(what>>3) % units
	switch what & 7 {
	case 0:
		o.Step()
	case 1, 2:
		o.Visit(u(n))
	case 3:
		o.At(uint64(n%2), n%3-1)
	case 4:
		o.Over(uint64(n % 2))
	case 5:
		row := make([]float32, units)
		row[n] = 0.7
		o.Tell(uint64(n%3), 0, row)
	case 6:
		o.End(uint64(n % 3))
	case 7:
		o.Await(u(n))
	}
}
