package world

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// two layers of three units of 10 bytes, and two hosts.
func example(t *testing.T) *World {
	t.Helper()
	w, err := New(layer(3), layer(5))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Event{Members{host("a", 30), host("b", 0)}, Room{Layer: 1, Bytes: []uint64{30, 30}, Spare: 3}} {
		if err := w.Observe(e); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func layer(number int) Layer {
	l := Layer{Number: number}
	for e := range 3 {
		l.Units = append(l.Units, Unit{unit.Expert(number, e), 10})
	}
	return l
}

func host(id string, bytes uint64) Host { return Host{ID: id, Tiers: []Tier{{Bytes: bytes}}} }

func rows(layer int, source Source, n ...float64) Rows {
	return Rows{layer, Demand{source, n}}
}

func TestNewRefuses(t *testing.T) {
	kind := layer(3)
	kind.Units[1].Kind = 9
	for name, tc := range map[string]struct {
		layers []Layer
		want   string
	}{
		"order": {[]Layer{layer(5), layer(3)}, "layers must ascend"}, "twice": {[]Layer{layer(3), layer(3)}, "layers must ascend"},
		"empty": {[]Layer{{Number: 1}}, "no units"}, "kind": {[]Layer{kind}, "unknown kind of unit: 9"},
		"elsewhere": {[]Layer{{Number: 4, Units: layer(3).Units}}, "unit 3/routed/0 is in layer 4"},
	} {
		if _, err := New(tc.layers...); !errors.Is(err, ErrEvent) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestRefused(t *testing.T) {
	slow := host("c", 0)
	slow.Tiers[0].Bandwidth = -1
	for name, tc := range map[string]struct {
		event Event
		want  string
	}{
		"clock":         {Clock(math.Inf(1)), "the time: +Inf"},
		"host order":    {Members{host("b", 0), host("a", 0)}, "ids must be there once"},
		"no tier":       {Members{{ID: "a"}}, "has no tier"},
		"small":         {Members{host("a", 9)}, "host a may hold 9 bytes, and the largest unit, of layer 3, takes 10; give the host more memory"},
		"bandwidth":     {Members{slow}, "bandwidth -1"},
		"health":        {Fares{0, Gone + 1}, "health 4"},
		"no host":       {Fares{2, Well}, "host 2 of 2"},
		"room":          {Room{Layer: 1, Bytes: []uint64{1}}, "room on 1 hosts, and there are 2"},
		"layer":         {rows(2, Counted, 1, 1, 1), "layer 2 in a list of 2"},
		"few rows":      {rows(0, Counted, 1), "rows of 1 units"},
		"negative rows": {rows(0, Counted, 1, -1, 1), "unit 3/routed/1: the rows: -1"},
		"source":        {rows(0, Recent+1, 1, 1, 1), "by source 3"},
		"holds":         {Holds{0, []Held{{Unit: 3}}}, "unit 3 on host 0; there are 3 units and 2 hosts"},
		"backlog":       {Backlog(math.NaN()), "the requests that wait: NaN"},
	} {
		w := example(t)
		if err := w.Observe(tc.event); !errors.Is(err, ErrEvent) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestObserve(t *testing.T) {
	w := example(t)
	for _, e := range []Event{
		Clock(5), Clock(3), rows(1, Counted, 4, 0, 0), rows(1, Counted, 5, 2, 0),
		rows(1, Recent, 9, 9, 9), Holds{1, []Held{{Unit: 2, Host: 1}}}, Fares{1, Throttles},
	} {
		if err := w.Observe(e); err != nil {
			t.Fatal(err)
		}
	}
	l := &w.Layers[1]
	if w.Now != 5 || !slices.Equal(l.Rows(), []float64{5, 2, 0}) || len(l.Held) != 1 || w.Hosts[1].Health != Throttles {
		t.Errorf("%+v", w)
	}
	if err := w.Observe(rows(1, Predicted, 7, 7, 7)); err != nil || l.Rows()[0] != 7 {
		t.Errorf("%v, %v: a prediction is the surest", l.Rows(), err)
	}
	if err := w.Observe(Members{host("b", 0)}); err != nil || l.Held != nil || l.Room != nil {
		t.Errorf("%+v, %v: places in an old list of hosts count", l, err)
	}
	if at, here := w.Host("b"); at != 0 || !here || l.Demand == nil {
		t.Errorf("%d, %v", at, here)
	}
}

// Queued is the part of the time in which a request waited, however many did. A burst counts
// a fifth within a second, and an hour later nothing is left of it.
func TestBacklog(t *testing.T) {
	for _, tc := range []struct {
		name string
		told []Event
		want float64
	}{
		{"nothing has passed", []Event{Clock(5), Backlog(8)}, 0},
		{"none for 20 s", []Event{Backlog(3), Clock(100), Backlog(0), Clock(120), Backlog(0)}, 0.368},
		{"all of it", []Event{Backlog(3), Clock(100), Backlog(1), Clock(200), Backlog(0)}, 1},
		{"a burst", []Event{Clock(100), Backlog(16), Clock(101), Backlog(16)}, 0.2 * 0.632},
		{"a burst of 5 s", []Event{Clock(100), Backlog(16), Clock(105), Backlog(16)}, 0.221},
		{"an hour later", []Event{Backlog(3), Clock(1), Backlog(0), Clock(3601), Backlog(0)}, 0},
	} {
		w := example(t)
		for _, e := range tc.told {
			if err := w.Observe(e); err != nil {
				t.Fatal(err)
			}
		}
		if math.Abs(w.Queued-tc.want) > 2e-3 {
			t.Errorf("%s: %v, want %v", tc.name, w.Queued, tc.want)
		}
	}
}

func TestDecisionRefused(t *testing.T) {
	w := example(t)
	for name, tc := range map[string]struct {
		decision Decision
		want     string // empty: it is taken
	}{
		"all":   {Decision{Layers: []Placement{{Replicas: []Replica{{0, 1}}, Keep: 1}}}, ""},
		"layer": {Decision{Layers: []Placement{{Layer: 2}}}, "layer 2 in a list of 2"},
		"unit":  {Decision{Layers: []Placement{{Replicas: []Replica{{3, 0}}}}}, "unit 3 on host 0"},
		"host":  {Decision{Layers: []Placement{{Replicas: []Replica{{0, 2}}}}}, "unit 0 on host 2"},
		"keep":  {Decision{Layers: []Placement{{Keep: math.NaN()}}}, "replicas without rows stay: NaN"},
	} {
		if err := tc.decision.Check(w); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
