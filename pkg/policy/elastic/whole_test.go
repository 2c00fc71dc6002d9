package elastic

import (
	"fmt"
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// shift lets a hot expert have rows for twenty seconds while so many requests wait, and says
// how many replicas it has then, and what the policy's last change was to bring.
func shift(t *testing.T, s Settings, hot uint32, waiting uint64) (replicas int, reason string) {
	t.Helper()
	m := testModel(1, 4)
	core, err := New(s, m)
	if err != nil {
		t.Fatal(err)
	}
	k := plan.Known{Model: m.Model, Settings: plan.Settings{Grouping: plan.ByExpert, Replicas: 1}, InForce: map[int]*plan.Layer{}}
	for h := range 4 {
		k.Hosts = append(k.Hosts, plan.Host{ID: fmt.Sprintf("host-%d", h), Budget: 30})
	}
	for i := range 80 {
		now := float64(i) / 4
		err := core.Observe(now, &pb.LoadSample{
			Version: schemas.Version, Model: testHash, Host: "gate-a", SpanMs: 10, Number: uint64(i + 1), Source: pb.LoadSource_LOAD_SOURCE_GATE,
			Steps: []*pb.StepLoad{{Owner: "attention-a", Rows: hot + 3, Expert: []uint32{0, 1, 2, 3}, Count: []uint32{hot, 1, 1, 1}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := core.Observe(now, waits("attention-a", uint64(i+1), waiting)); err != nil {
			t.Fatal(err)
		}
		d, _, err := core.Decide(now, k)
		if err != nil {
			t.Fatal(err)
		}
		l, err := plan.Rules{MoELayers: m.MoELayers, Experts: m.Experts}.Check(d.Layers[0])
		if err != nil {
			t.Fatal(err)
		}
		k.InForce[0], replicas, reason = l, 0, l.Reason
		for _, p := range l.Functions[0].Placements {
			if p.Want == warm {
				replicas++
			}
		}
	}
	return replicas, reason
}

// Where reading an expert's weights takes as long as a hundred rows, a hot expert with few
// rows a step has one replica, as a second one would read them again; with many it has
// several. A policy that asks for replicas by rows alone gets none where they take longer.
func TestReadingCounts(t *testing.T) {
	for _, tc := range []struct {
		scaling string
		hot     uint32
		several bool
	}{{"moeless+", 60, false}, {"moeless+", 2000, true}, {"moeless+lean", 2000, true}, {"moeless+:gain=100", 2000, false}, {"moeless", 60, false}, {"moeless", 2000, true}} {
		s := printed()
		s.Scaling, s.Takes, s.RowSeconds, s.Worth = tc.scaling, reads, 1e-3, 0
		if n, reason := shift(t, s, tc.hot, 0); n > 1 != tc.several {
			t.Errorf("%s with %d rows: %d replicas; %s", tc.scaling, tc.hot, n, reason)
		}
	}
}

// Without a profile rows take what hosts say, and reading nothing.
func TestWithoutProfile(t *testing.T) {
	s := printed()
	s.Scaling, s.RowSeconds, s.Worth = "moeless+", 1e-3, 0
	if n, reason := shift(t, s, 2000, 0); n < 2 {
		t.Errorf("%d replicas; %s", n, reason)
	}
}

// Predictions that always foresee too few rows of an expert are corrected, for policies that
// are registered so.
func TestCorrects(t *testing.T) {
	for scaling, corrects := range map[string]bool{"moeless+": true, "moeless": false} {
		s := printed()
		s.Scaling = scaling
		core, err := New(s, testModel(2, 2))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			for from, step := range map[string]*pb.StepLoad{
				"gate-a":      {Owner: "attention-a", Rows: 100, Expert: []uint32{0, 1}, Count: []uint32{80, 20}},
				"predictor-a": {Owner: "attention-a", Rows: 10, Distance: 1, Expert: []uint32{0, 1}, Count: []uint32{5, 5}},
			} {
				sample := &pb.LoadSample{
					Version: schemas.Version, Model: testHash, Host: from, Layer: 1, SpanMs: 10, Number: uint64(i + 1), Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: []*pb.StepLoad{step},
				}
				if step.Distance > 0 {
					sample.Source = pb.LoadSource_LOAD_SOURCE_PREDICTOR
				}
				if err := core.Observe(float64(i)/4, sample); err != nil {
					t.Fatal(err)
				}
			}
		}
		rates := core.layers[1].expected(25, core.mode)
		want := map[bool]float64{true: 0.8, false: 0.5}[corrects]
		if share := rates[0] / sum(rates); math.Abs(share-want) > 0.01 {
			t.Errorf("%s: expert 0 is to have %.3g of the rows", scaling, share)
		}
	}
}

// Plans say how gates divide rows, of policies that are registered so, once it is known
// what accesses take.
func TestDivision(t *testing.T) {
	for _, tc := range []struct {
		name, scaling string
		set, told     *cost.Device
		divides       bool
	}{
		{"by a setting", "moeless+", reads, nil, true}, {"by what hosts tell", "moeless+lean", nil, reads, true},
		{"unknown", "moeless+", nil, nil, false}, {"evenly", "moeless", reads, nil, false}, {"static", "static", reads, nil, false},
	} {
		s, m := printed(), testModel(1, 4)
		s.Scaling, s.Takes = tc.scaling, tc.set
		core, err := New(s, m)
		if err != nil {
			t.Fatal(err)
		}
		if tc.told != nil {
			core.Takes(*tc.told)
		}
		k := plan.Known{Model: m.Model, Settings: plan.Settings{Grouping: plan.ByExpert, Replicas: 1}, Hosts: []plan.Host{{ID: "host-0", Budget: 120}}, InForce: map[int]*plan.Layer{}}
		for range 2 { // the first plan is the static policy's
			d, _, err := core.Decide(1, k)
			if err != nil {
				t.Fatal(err)
			}
			l, err := plan.Rules{MoELayers: m.MoELayers, Experts: m.Experts}.Check(d.Layers[0])
			if err != nil {
				t.Fatal(err)
			}
			k.InForce[0] = l
		}
		if got := k.InForce[0].Division; (got != nil) != tc.divides || tc.divides && got.CallSeconds < s.MessageSeconds {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
